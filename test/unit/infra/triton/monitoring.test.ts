import { readFileSync } from 'node:fs';
import { ALERT_NAMES } from '../../../../infra/triton/monitoring/alert-names';
import { UNUSED_SUMMARIES } from '../../../../infra/triton/monitoring/latency';
import { getProblems } from '../settings-problems';
import { LABELS, SELECTOR, render } from '../../../support/render';
import { firstCommands, RUNBOOK, section } from '../../../support/runbook';

const PARTS = ['ServiceMonitor', 'PrometheusRule', 'ConfigMap'];

const TEXT = readFileSync(RUNBOOK, 'utf8');

/** Begins of the parts of a section about an alert. */
const ANSWERS = [
  '**Users notice:**',
  '```sh',
  '**Causes:**',
  '**Stop the harm:**',
  '**Make it last:**',
  '**The next day:**',
];

/** A command that runs as it is written, after its names are replaced. */
const COMMAND =
  /^(kubectl --context prod (--namespace (triton|keda) |get node)\S+ |npm run (status|releases) -- --stack prod$)/;

interface Rule {
  alert?: string;
  expr: string;
  for?: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

async function alerts(more: Parameters<typeof render>[0] = {}): Promise<Rule[]> {
  const { only } = await render({ monitoring: {}, ...more });
  const { groups } = only('PrometheusRule')['spec'] as { groups: { name: string; rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined);
}

test('monitoring creates only the enabled objects', async () => {
  const parts = async (more?: Parameters<typeof render>[0]): Promise<string[]> =>
    (await render(more)).objects
      .filter(({ name }) => name !== 'triton-agent')
      .map(({ type }) => type.split(':').at(-1) ?? '')
      .filter((kind) => PARTS.includes(kind))
      .sort();
  expect(await parts()).toEqual([]);
  expect(await parts({ monitoring: {} })).toEqual(['ConfigMap', 'PrometheusRule', 'ServiceMonitor']);
  expect(await parts({ monitoring: { alerts: false, dashboard: false } })).toEqual(['ServiceMonitor']);
  expect(await parts({ monitoring: { serviceMonitor: false, dashboard: false } })).toEqual(['PrometheusRule']);
  expect(await parts({ monitoring: { serviceMonitor: false, alerts: false } })).toEqual(['ConfigMap']);
});

test('the ServiceMonitor selects the metrics port of the Service', async () => {
  const { only } = await render({ monitoring: { scrapeSeconds: 30 } });
  expect(only('ServiceMonitor')).toEqual({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: { name: 'triton', namespace: 'triton', labels: { ...LABELS, release: 'kube-prometheus-stack' } },
    spec: {
      selector: { matchLabels: SELECTOR },
      endpoints: [
        {
          port: 'metrics',
          path: '/metrics',
          interval: '30s',
          scrapeTimeout: '10s',
          metricRelabelings: [{ sourceLabels: ['__name__'], regex: UNUSED_SUMMARIES, action: 'drop' }],
        },
      ],
    },
  });
  const { labels } = only('Service', 'triton')['metadata'] as { labels: Record<string, string> };
  expect(labels).toMatchObject(SELECTOR);
});

test('the PodMonitor selects the port of the agents', async () => {
  const { only, kinds } = await render({ monitoring: { scrapeSeconds: 30 } });
  expect(only('PodMonitor')).toEqual({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PodMonitor',
    metadata: { name: 'triton-agent', namespace: 'triton', labels: { ...LABELS, release: 'kube-prometheus-stack' } },
    spec: {
      selector: { matchLabels: SELECTOR },
      podMetricsEndpoints: [{ port: 'agent', path: '/metrics', interval: '30s', scrapeTimeout: '10s' }],
    },
  });
  expect(kinds()).toContain('ServiceMonitor');
  expect((await render({ monitoring: { serviceMonitor: false } })).kinds()).not.toContain('PodMonitor');
});

test('selectorLabels are set on monitors and rules', async () => {
  const { only } = await render({ monitoring: { selectorLabels: { prometheus: 'serving' } } });
  for (const kind of ['ServiceMonitor', 'PrometheusRule']) {
    expect(only(kind)['metadata']).toMatchObject({ labels: { ...LABELS, prometheus: 'serving' } });
    expect(JSON.stringify(only(kind))).not.toContain('kube-prometheus-stack');
  }
});

describe('alerts', () => {
  const ALWAYS = [
    'TritonDown',
    'TritonCapacityLow',
    'TritonModelGone',
    'TritonNoModels',
    'TritonReplicaEvicted',
    'TritonMemoryHigh',
    'TritonRequestsFailing',
    'TritonRequestsCanceled',
    'TritonQueueLong',
    'TritonRequestsStuck',
  ];
  const OF_AGENTS = [
    'TritonNotServing',
    'TritonAgentDown',
    'TritonReleaseNotServed',
    'TritonHeadUnread',
    'TritonDownloadFailing',
  ];
  const names = (rules: Rule[]): string[] => rules.map(({ alert }) => alert ?? '');

  test('include those of GPUs and objectives only if these are configured', async () => {
    expect(names(await alerts({ gpusPerPod: 0 }))).toEqual([...ALWAYS, ...OF_AGENTS]);
    expect(names(await alerts())).toEqual([...ALWAYS, 'TritonGpuMissing', ...OF_AGENTS]);
    const ofErrors = ['TritonErrorBudgetBurnFast', 'TritonErrorBudgetBurnSlow'];
    expect(names(await alerts({ slo: { errorRate: 0.001 }, gpusPerPod: 0 }))).toEqual([
      ...ALWAYS,
      ...ofErrors,
      ...OF_AGENTS,
    ]);
    const ofLatency = ['TritonLatencyBudgetBurnFast', 'TritonLatencyBudgetBurnSlow'];
    expect(names(await alerts({ slo: { p99Milliseconds: 100 }, gpusPerPod: 0 }))).toEqual([
      ...[...ALWAYS, ...ofLatency, ...OF_AGENTS],
    ]);
  });

  test('about objectives can be set in a stack file', async () => {
    const slo = { p99Milliseconds: 100, errorRate: 0.001 };
    expect(getProblems({ slo, monitoring: { alerts: true } })).toEqual([]);
    expect(getProblems({ slo: { errorRate: '0.1%', p99: 5 } })).toEqual([
      expect.stringMatching(/^slo\.p99: unknown setting; allowed: p99Milliseconds, errorRate/) as string,
      'slo.errorRate: is "0.1%"; allowed: a number from 0.00001 to 0.05',
    ]);
  });

  test('have a severity, labels, and a link to a section of the runbook, which begins with the severity', async () => {
    const autoscaling = { kind: 'keda', minReplicas: 1, maxReplicas: 2 } as const;
    const rules = await alerts({ autoscaling, slo: { p99Milliseconds: 100, errorRate: 0.001 } });
    const sections = [...TEXT.matchAll(/^## (Triton\w+)\n\n\*\*(\w+)\*\*/gm)].map(([, ...section]) => section);
    for (const { alert = '', labels, annotations } of rules) {
      expect(labels).toEqual({
        severity: expect.stringMatching(/^(critical|warning)$/) as string,
        namespace: 'triton',
        server: 'triton',
      });
      expect(annotations).toEqual({
        summary: expect.stringMatching(/\.$/) as string,
        runbook_url: `docs/runbook.md#${alert.toLowerCase()}`,
      });
      expect(sections).toContainEqual([alert, labels['severity']]);
    }
    expect(sections.map(([alert]) => alert).sort()).toEqual(names(rules).sort());
    expect([...ALERT_NAMES].sort()).toEqual(names(rules).sort());
  });

  test.each(ALERT_NAMES)('the runbook has three commands and five answers about %s, in this order', (name) => {
    const answers = section(name).match(/^\*\*[A-Z][^*]*:\*\*|^```sh$/gm);
    expect(answers?.slice(0, ANSWERS.length)).toEqual(ANSWERS);
    const commands = firstCommands(name);
    expect(commands).toHaveLength(3);
    for (const command of commands) expect(command).toMatch(COMMAND);
  });

  test('each kubectl of the runbook names its cluster', () => {
    expect(TEXT.match(/kubectl (?!--context prod ).*/g)).toBeNull();
  });

  test('link to the address of the runbook that is configured', async () => {
    const runbookUrl = 'https://git.example.com/serving/blob/main/docs/runbook.md';
    const [down] = await alerts({ monitoring: { runbookUrl } });
    expect(down?.annotations).toMatchObject({ runbook_url: `${runbookUrl}#tritondown` });
  });

  test('use the configured limits', async () => {
    const autoscaling = { kind: 'keda', minReplicas: 1, maxReplicas: 2, queueMilliseconds: 10 } as const;
    const rules = await alerts({ autoscaling, startup: { downloadSeconds: 3000 } });
    const rule = (name: string): Rule | undefined => rules.find(({ alert }) => alert === name);
    expect(rule('TritonQueueLong')).toMatchObject({ expr: expect.stringMatching(/ > 40$/) as string, for: '600s' });
    // A node, the agent's image, the models and being ready. Triton's image is pulled during the download.
    expect(rule('TritonCapacityLow')).toMatchObject({ for: `${300 + 30 + 3300 + 10}s` });
  });
});

describe('the dashboard', () => {
  interface Dashboard {
    uid: string;
    title: string;
    panels: {
      id: number;
      title: string;
      gridPos: { x: number; y: number; w: number; h: number };
      targets: { expr: string; interval: string }[];
    }[];
  }

  const dashboard = async (more: Parameters<typeof render>[0] = {}, name?: string): Promise<Dashboard> => {
    const { only } = await render({ monitoring: {}, ...more }, name);
    const config = only('ConfigMap', `${name ?? 'triton'}-dashboard`) as {
      metadata: object;
      data: Record<string, string>;
    };
    expect(config.metadata).toMatchObject({ labels: { grafana_dashboard: '1' } });
    const [file, text] = Object.entries(config.data)[0] ?? ['', ''];
    expect(file).toBe(`${name ?? 'triton'}-${name ?? 'triton'}.json`);
    return JSON.parse(text) as Dashboard;
  };

  const SCALED = { autoscaling: { kind: 'keda', minReplicas: 1, maxReplicas: 2 } } as const;

  test('queries only the series of this component', async () => {
    const { panels, title } = await dashboard(SCALED, 'faces');
    expect(title).toBe('Triton faces/faces');
    const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    expect(queries.length).toBeGreaterThan(20);
    const ours = /^\{namespace="faces",(job|deployment|horizontalpodautoscaler|pod)=~?"[^"]*faces/;
    for (const query of queries) {
      const selectors = query.match(/\{[^}]+\}/g) ?? [];
      if (!query.startsWith('vector(')) expect(selectors.length).toBeGreaterThan(0);
      for (const selector of selectors) expect(selector).toMatch(ours);
    }
  });

  test('begins with the panels that people on call need, and shows each signal of the autoscaler with its goal', async () => {
    const { panels } = await dashboard(SCALED);
    expect(panels.slice(0, 10).map(({ title }) => title)).toEqual([
      'Failed requests by reason',
      'Replicas',
      'Requests by replica',
      'Mean queue time by replica',
      'Autoscaler: queue time',
      'Autoscaler: batches in flight per replica',
      'Autoscaler: what it read, share of the goal',
      'Autoscaler: conditions that hold',
      'Memory of the container, share of its limit',
      'CPU throttling of the container, share of the time',
    ]);
    const goals = panels.slice(4, 6).map(({ targets }) => targets[1]?.expr);
    expect(goals).toEqual(['vector(50)', 'vector(150)']);
    for (const drawn of ['spec_max_replicas', 'spec_min_replicas', 'status_desired_replicas'])
      expect(JSON.stringify(panels[1])).toContain(`kube_horizontalpodautoscaler_${drawn}{`);
    const unscaled = JSON.stringify(await dashboard());
    expect(unscaled).not.toMatch(/kube_horizontalpodautoscaler|Autoscaler:/);
  });

  test('draws rates over the step of the graph, except the signals of the autoscaler', async () => {
    const { panels } = await dashboard({ ...SCALED, monitoring: { scrapeSeconds: 60 } });
    for (const { title, targets } of panels) {
      for (const { expr, interval } of targets) {
        expect(interval).toBe('60s');
        const windows = [...expr.matchAll(/\}\[([^\]]+)\]/g)].map(([, window]) => window);
        if (title.startsWith('Autoscaler')) expect(windows).not.toContain('$__rate_interval');
        else expect(windows).toEqual(windows.map(() => '$__rate_interval'));
      }
    }
  });

  test('has panels with unique ids that do not overlap', async () => {
    const { panels } = await dashboard();
    const places = panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
    expect(new Set(places).size).toBe(panels.length);
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    expect(panels.map(({ id }) => id)).toEqual(panels.map((_, index) => index + 1));
  });

  test('draws the percentiles of each version, with the objective if there is one', async () => {
    const drawn = async (more: Parameters<typeof render>[0]): Promise<string[]> => {
      const { panels } = await dashboard(more);
      const of = panels.find(({ title }) => title.includes('p50, p95, p99'));
      return of?.targets.map(({ expr }) => expr) ?? [];
    };
    const percentiles = ['0.5', '0.95', '0.99'].map(
      (quantile) =>
        `max by (model, version) (nv_inference_request_summary_us{namespace="triton",job="triton",quantile="${quantile}"}) / 1000`,
    );
    expect(await drawn({})).toEqual(percentiles);
    expect(await drawn({ slo: { p99Milliseconds: 80 } })).toEqual([...percentiles, 'vector(80)']);
  });

  test('has no GPU panels without GPUs', async () => {
    expect(JSON.stringify(await dashboard({ gpusPerPod: 0 }))).not.toContain('nv_gpu');
    expect(JSON.stringify(await dashboard())).toContain('nv_gpu_utilization');
  });

  test('has a unique id of at most 40 characters', async () => {
    const name = 'a-server-with-a-rather-long-name-that-is';
    const [one, other] = [await dashboard({}, name), await dashboard({}, `${name.slice(0, -1)}t`)];
    expect(one.uid.length).toBeLessThanOrEqual(40);
    expect(one.uid).not.toBe(other.uid);
  });
});
