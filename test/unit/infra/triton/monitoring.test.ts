import { readFileSync } from 'node:fs';
import { UNUSED_SUMMARIES } from '../../../../infra/triton/monitoring/latency';
import { loadSignals, scalingQuery } from '../../../../infra/triton/monitoring/load-signals';
import type { TritonServerArgs } from '../../../../infra/triton/args';
import { LABELS, SELECTOR, render } from '../../../support/render';
import { ALERT_NAMES, RUNBOOK } from '../../../support/doc-commands';

const MONITORED = { monitoring: { namespace: 'monitoring' } };
type MonitoringArgs = NonNullable<TritonServerArgs['monitoring']>;

const withSlo = (slo: MonitoringArgs['slo']): { monitoring: MonitoringArgs } => ({ monitoring: { slo } });

interface Rule {
  alert?: string;
  expr: string;
  for?: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

async function alerts(more: Parameters<typeof render>[0] = {}): Promise<Rule[]> {
  const { only } = await render({ ...MONITORED, ...more });
  const { groups } = only('PrometheusRule')['spec'] as { groups: { name: string; rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined);
}

test('monitoring creates all objects', async () => {
  const parts = async (more?: Parameters<typeof render>[0]): Promise<string[]> =>
    (await render(more)).objects
      .map(({ type, name }) => `${type.split(':').at(-1)} ${name}`)
      .filter((object) => /Monitor|Rule|dashboard/.test(object))
      .sort();
  expect(await parts()).toEqual([]);
  // As in Pulumi.yaml, an empty mapping is a missing one.
  expect(await parts({ monitoring: {} })).toEqual([]);
  expect(await parts(MONITORED)).toEqual([
    'ConfigMap triton-dashboard',
    'PodMonitor triton-agent-monitor',
    'PrometheusRule triton-rules',
    'ServiceMonitor triton-monitor',
  ]);
});

test.each<[MonitoringArgs, object]>([
  [{ namespace: 'monitoring' }, { release: 'kube-prometheus-stack' }],
  [{ selectorLabels: { prometheus: 'serving' } }, { prometheus: 'serving' }],
])('with %j, Prometheus of %j scrapes the Service and the agents in each pod', async (monitoring, selectorLabels) => {
  const { only } = await render({ monitoring });
  const endpoint = { path: '/metrics', interval: '15s', scrapeTimeout: '10s' };
  const metricRelabelings = [{ sourceLabels: ['__name__'], regex: UNUSED_SUMMARIES, action: 'drop' }];
  const selector = { matchLabels: SELECTOR };
  expect(only('ServiceMonitor')).toMatchObject({
    metadata: { name: 'triton', namespace: 'triton' },
    spec: { selector, endpoints: [{ port: 'metrics', ...endpoint, metricRelabelings }] },
  });
  expect(only('PodMonitor')).toMatchObject({
    metadata: { name: 'triton-agent', namespace: 'triton' },
    spec: { selector, podMetricsEndpoints: [{ port: 'agent', ...endpoint }] },
  });
  for (const kind of ['ServiceMonitor', 'PodMonitor', 'PrometheusRule']) {
    expect(only(kind)).toHaveProperty('metadata.labels', { ...LABELS, ...selectorLabels });
  }
  expect(only('Service', 'triton')['metadata']).toMatchObject({ labels: SELECTOR });
});

describe('alerts', () => {
  const names = (rules: Rule[]): string[] => rules.map(({ alert }) => alert ?? '');

  test('include those of GPUs and objectives only if these are configured', async () => {
    const all = names(await alerts({ ...withSlo({ p99Milliseconds: 100, errorRate: 0.001 }) }));
    const without = (pattern: RegExp): string[] => all.filter((name) => !pattern.test(name));
    expect(all.sort()).toEqual([...ALERT_NAMES].sort());
    expect(names(await alerts({ gpusPerPod: 0 })).sort()).toEqual(without(/Gpu|Budget/));
    expect(names(await alerts()).sort()).toEqual(without(/Budget/));
    expect(names(await alerts(withSlo({ errorRate: 0.001 }))).sort()).toEqual(without(/LatencyBudget/));
    expect(names(await alerts(withSlo({ p99Milliseconds: 100 }))).sort()).toEqual(without(/ErrorBudget/));
  });

  test('have sections in the runbook, which begin with their severity', async () => {
    const autoscaling = { minReplicas: 1, maxReplicas: 2 } as const;
    const rules = await alerts({ autoscaling, ...withSlo({ p99Milliseconds: 100, errorRate: 0.001 }) });
    const text = readFileSync(RUNBOOK, 'utf8');
    const sections = [...text.matchAll(/^## (Triton\w+)\n\n\*\*(\w+)\*\*/gm)].map(([, ...section]) => section);
    expect(sections.sort()).toEqual(rules.map(({ alert, labels }) => [alert, labels['severity']]).sort());
  });

  test('have commands in the runbook that name the cluster of each kubectl', () => {
    expect(readFileSync(RUNBOOK, 'utf8').match(/kubectl (?!--context prod ).*/g)).toBeNull();
  });

  test('link to the address of the runbook that is configured', async () => {
    const runbookUrl = 'https://git.example.com/serving/blob/main/docs/runbook.md';
    const [down] = await alerts({ monitoring: { runbookUrl } });
    expect(down?.annotations).toMatchObject({ runbook_url: `${runbookUrl}#tritondown` });
  });

  test('use the configured limits', async () => {
    const autoscaling = { minReplicas: 1, maxReplicas: 2, queueMilliseconds: 10 } as const;
    const rules = await alerts({ autoscaling, startSeconds: 6000 });
    const rule = (name: string): Rule | undefined => rules.find(({ alert }) => alert === name);
    expect(rule('TritonQueueLong')).toMatchObject({ expr: expect.stringMatching(/ > 40$/) as string, for: '600s' });
    // A node, the agent's image, the models and being ready. Triton's image is pulled during the download.
    expect(rule('TritonCapacityLow')).toMatchObject({ for: `${300 + 30 + 6000 + 10}s` });
  });
});

describe('the dashboard', () => {
  interface Dashboard {
    uid: string;
    title: string;
    panels: { targets: { expr: string }[] }[];
  }

  const dashboard = async (more: Parameters<typeof render>[0] = {}, name?: string): Promise<Dashboard> => {
    const { only } = await render({ ...MONITORED, ...more }, name);
    const config = only('ConfigMap', `${name ?? 'triton'}-dashboard`) as {
      metadata: object;
      data: Record<string, string>;
    };
    expect(config.metadata).toMatchObject({ labels: { grafana_dashboard: '1' } });
    const [file, text] = Object.entries(config.data)[0] ?? ['', ''];
    expect(file).toBe(`${name ?? 'triton'}-${name ?? 'triton'}.json`);
    return JSON.parse(text) as Dashboard;
  };

  const SCALED = { autoscaling: { minReplicas: 1, maxReplicas: 2 } } as const;

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

  test('draws the objective if there is one, and GPUs if there are some', async () => {
    expect(JSON.stringify(await dashboard(withSlo({ p99Milliseconds: 80 })))).toContain('vector(80)');
    expect(JSON.stringify(await dashboard())).not.toContain('objective');
    expect(JSON.stringify(await dashboard({ gpusPerPod: 0 }))).not.toContain('nv_gpu');
  });

  test('has a unique id of at most 40 characters', async () => {
    const name = 'a-server-with-a-rather-long-name-that-is';
    const [one, other] = [await dashboard({}, name), await dashboard({}, `${name.slice(0, -1)}t`)];
    expect(one.uid.length).toBeLessThanOrEqual(40);
    expect(one.uid).not.toBe(other.uid);
  });
});

test('the autoscaler asks Prometheus in the namespace of monitoring for the signals that test/stack/monitoring-stories.test.ts evaluates', async () => {
  const { only } = await render({
    autoscaling: { minReplicas: 1, maxReplicas: 3, queueMilliseconds: 200, instancesPerReplica: 4 },
    monitoring: { namespace: 'elsewhere' },
  });
  const of = { namespace: 'triton', name: 'triton' };
  const { spec } = only('ScaledObject') as { spec: { triggers: { metadata: Record<string, string> }[] } };
  expect(spec.triggers.map(({ metadata }) => metadata)).toEqual(
    loadSignals(of, { queueMilliseconds: 200, instancesPerReplica: 4 }).map((signal) => ({
      serverAddress: 'http://prometheus-operated.elsewhere.svc:9090',
      query: scalingQuery(of, signal),
      threshold: String(signal.goal),
      ignoreNullValues: 'false',
    })),
  );
});
