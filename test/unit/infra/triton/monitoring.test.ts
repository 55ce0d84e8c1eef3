import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../../src/core/paths';
import { LABELS, SELECTOR, render } from '../../../support/render';

const PARTS = ['ServiceMonitor', 'PrometheusRule', 'ConfigMap'];

interface Rule {
  alert?: string;
  for?: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

async function alerts(more: Parameters<typeof render>[0] = {}): Promise<Rule[]> {
  const { only } = await render({ monitoring: {}, ...more });
  const { groups } = only('PrometheusRule')['spec'] as { groups: { name: string; rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined);
}

test('nothing unless it is asked for, and each part by itself', async () => {
  const parts = async (more?: Parameters<typeof render>[0]): Promise<string[]> =>
    (await render(more)).kinds().filter((kind) => PARTS.includes(kind));
  expect(await parts()).toEqual([]);
  expect(await parts({ monitoring: {} })).toEqual(['ConfigMap', 'PrometheusRule', 'ServiceMonitor']);
  expect(await parts({ monitoring: { alerts: false, dashboard: false } })).toEqual(['ServiceMonitor']);
  expect(await parts({ monitoring: { serviceMonitor: false, dashboard: false } })).toEqual(['PrometheusRule']);
  expect(await parts({ monitoring: { serviceMonitor: false, alerts: false } })).toEqual(['ConfigMap']);
});

test('the ServiceMonitor finds the port that the Service has', async () => {
  const { only } = await render({ monitoring: { scrapeSeconds: 30 } });
  expect(only('ServiceMonitor')).toEqual({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: { name: 'triton', namespace: 'triton', labels: { ...LABELS, release: 'kube-prometheus-stack' } },
    spec: {
      selector: { matchLabels: SELECTOR },
      endpoints: [{ port: 'metrics', path: '/metrics', interval: '30s', scrapeTimeout: '10s' }],
    },
  });
  const { labels } = only('Service')['metadata'] as { labels: Record<string, string> };
  expect(labels).toMatchObject(SELECTOR);
});

test('the labels that another Prometheus selects by', async () => {
  const { only } = await render({ monitoring: { selectorLabels: { prometheus: 'serving' } } });
  for (const kind of ['ServiceMonitor', 'PrometheusRule']) {
    expect(only(kind)['metadata']).toMatchObject({ labels: { ...LABELS, prometheus: 'serving' } });
    expect(JSON.stringify(only(kind))).not.toContain('kube-prometheus-stack');
  }
});

describe('alerts', () => {
  const ALWAYS = [
    'TritonDown',
    'TritonReplicasMissing',
    'TritonRestarting',
    'TritonUnschedulable',
    'TritonModelsDiffer',
    'TritonRequestsFailing',
    'TritonQueueLong',
    'TritonRequestsStuck',
  ];
  const names = (rules: Rule[]): string[] => rules.map(({ alert }) => alert ?? '');

  test('those of GPUs and of an autoscaler are there where these are', async () => {
    expect(names(await alerts({ gpusPerPod: 0 }))).toEqual(ALWAYS);
    expect(names(await alerts())).toEqual([...ALWAYS, 'TritonGpuMemoryFull']);
    const autoscaling = { kind: 'keda', minReplicas: 1, maxReplicas: 2 } as const;
    expect(names(await alerts({ autoscaling, gpusPerPod: 0 }))).toEqual([...ALWAYS, 'TritonAtMaximumReplicas']);
  });

  test('each says how bad it is, whose it is, and where to read on', async () => {
    const autoscaling = { kind: 'keda', minReplicas: 1, maxReplicas: 2 } as const;
    const rules = await alerts({ autoscaling });
    const sections = readFileSync(join(paths.root, 'docs', 'operations.md'), 'utf8').match(/^### Triton\w+$/gm) ?? [];
    for (const { alert = '', labels, annotations } of rules) {
      expect(labels).toEqual({
        severity: expect.stringMatching(/^(critical|warning)$/) as string,
        namespace: 'triton',
        server: 'triton',
      });
      expect(annotations).toEqual({
        summary: expect.stringMatching(/\.$/) as string,
        runbook: `docs/operations.md#${alert.toLowerCase()}`,
      });
      expect(sections).toContain(`### ${alert}`);
    }
    expect(sections.map((line) => line.slice(4)).sort()).toEqual(names(rules).sort());
  });

  test('limits follow what was chosen', async () => {
    const autoscaling = { kind: 'keda', minReplicas: 1, maxReplicas: 2, queueMilliseconds: 10 } as const;
    const rules = await alerts({ autoscaling, startup: { downloadSeconds: 3000 } });
    const rule = (name: string): Rule | undefined => rules.find(({ alert }) => alert === name);
    expect(rule('TritonQueueLong')).toMatchObject({ expr: expect.stringMatching(/ > 40$/) as string, for: '600s' });
    // Twice a node, the image, the models and being ready.
    expect(rule('TritonReplicasMissing')).toMatchObject({ for: `${2 * (300 + 300 + 3300 + 10)}s` });
    expect(rule('TritonRestarting')).not.toHaveProperty('for');
  });
});

describe('the dashboard', () => {
  interface Dashboard {
    uid: string;
    title: string;
    panels: { id: number; gridPos: { x: number; y: number; w: number; h: number }; targets: { expr: string }[] }[];
  }

  const dashboard = async (more: Parameters<typeof render>[0] = {}, name?: string): Promise<Dashboard> => {
    const { only } = await render({ monitoring: {}, ...more }, name);
    const config = only('ConfigMap') as { metadata: object; data: Record<string, string> };
    expect(config.metadata).toMatchObject({ labels: { grafana_dashboard: '1' } });
    const [file, text] = Object.entries(config.data)[0] ?? ['', ''];
    expect(file).toBe(`${name ?? 'triton'}-${name ?? 'triton'}.json`);
    return JSON.parse(text) as Dashboard;
  };

  test('asks for the series of this server only', async () => {
    const { panels, title } = await dashboard({}, 'faces');
    expect(title).toBe('Triton faces/faces');
    const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    expect(queries.length).toBeGreaterThan(12);
    for (const query of queries) {
      const all = query.match(/(nv_\w+|up)\{/g) ?? [];
      expect(all.length).toBeGreaterThan(0);
      expect(query.match(/(nv_\w+|up)\{namespace="faces",job="faces"\}/g)).toHaveLength(all.length);
    }
  });

  test('no panel lies on another, and each has its number', async () => {
    const { panels } = await dashboard();
    const places = panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
    expect(new Set(places).size).toBe(panels.length);
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    expect(panels.map(({ id }) => id)).toEqual(panels.map((_, index) => index + 1));
  });

  test('without GPUs nothing of them', async () => {
    expect(JSON.stringify(await dashboard({ gpusPerPod: 0 }))).not.toContain('nv_gpu');
    expect(JSON.stringify(await dashboard())).toContain('nv_gpu_utilization');
  });

  test('Grafana takes 40 characters for its id, and one for each', async () => {
    const name = 'a-server-with-a-rather-long-name-that-is';
    const [one, other] = [await dashboard({}, name), await dashboard({}, `${name.slice(0, -1)}t`)];
    expect(one.uid.length).toBeLessThanOrEqual(40);
    expect(one.uid).not.toBe(other.uid);
  });
});
