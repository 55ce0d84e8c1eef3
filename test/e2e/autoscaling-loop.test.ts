import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubernetesObject } from '@kubernetes/client-node';
import { SUMMARY_FLAGS } from '../../infra/triton/monitoring/latency';
import { TritonServer } from '../../infra/triton/server';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { whyNoGo } from '../../tools/toolchain/go';
import { Authority } from '../support/authority';
import { serveClusterMetrics } from '../support/cluster-metrics';
import { ControlPlane, isServing } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { whyMissing } from '../support/doc-commands';
import { aggregationFlags, startKeda } from '../support/keda';
import { getManifests, type Manifest } from '../support/manifests';
import { getMemory } from '../support/process-memory';
import { TestPrometheus } from '../support/prometheus';
import { registered } from '../support/registered-stack';
import { ARGS } from '../support/render';
import { SCRAPE_SECONDS } from '../../infra/triton/monitoring/promql';
import { answeringProgram, writeRepository } from '../support/repository';
import { Scratch } from '../support/temp-dir';
import { testTriton, type TestTriton } from '../support/triton';
import { until } from '../support/wait-for';

const BUILD_MS = 60 * 60_000;
/** The autoscaler changes the number of pods at most once a minute, and each signal is a mean of two minutes. */
const LONG_MS = 15 * 60_000;

const NAME = 'triton';
const MOST_PODS = 3;

/** Requests in flight in all pods together. With this many, the autoscaler requests more than three pods on every machine. */
const IN_FLIGHT = 6;
const MODEL = 'slow';
const REQUEST_MS = 100;

const REPOSITORY = {
  [`${MODEL}/config.pbtxt`]: [
    'backend: "python"',
    'instance_group { count: 1 kind: KIND_CPU }',
    'input { name: "x" data_type: TYPE_FP32 dims: 1 }',
    'output { name: "y" data_type: TYPE_FP32 dims: 1 }',
  ].join('\n'),
  [`${MODEL}/1/model.py`]: `import time\n${answeringProgram('x', 'y', `(time.sleep(${REQUEST_MS / 1000}), x)[1]`)}`,
};

/** Counters of failures, so that more than one lost request in a row shows. KEDA falls back after four. */
const FAILURES = 8;

/** In the description of a ScaledObject that cannot read its signals. */
const FALLS_BACK = /FallbackExists/;

interface Panel {
  title: string;
  fieldConfig: { defaults: { unit: string } };
  targets: { expr: string; legendFormat: string }[];
}

/** Values that a panel may have, by its title or else its unit, of a load of IN_FLIGHT requests of REQUEST_MS each. */
const RANGES: Readonly<Record<string, readonly [least: number, most: number]>> = {
  reqps: [0, (MOST_PODS * 1000) / REQUEST_MS],
  ms: [0, 60_000],
  percent: [0, 100 * IN_FLIGHT],
  percentunit: [0, 1],
  short: [0, 10],
  // What requests that are lost or pile up say at most, in goals.
  'Autoscaler: what it read, share of the goal': [0, 4],
};

const WHY_NOT = whyNoGo(['kubernetes', 'kwok', 'promtool', 'keda']) ?? whyMissing('kubectl');

describeUnless(WHY_NOT, 'the autoscaling loop', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());
  let plane: ControlPlane;
  let prometheus: TestPrometheus;
  let manifests: Manifest[];
  let fleet: Fleet;
  let load: Load;

  const only = (kind: string, name = NAME): Manifest => {
    const found = manifests.filter((one) => one.kind === kind && one.metadata.name === name);
    expect([kind, found.length]).toEqual([kind, 1]);
    return found[0] as Manifest;
  };

  /** What the command in docs/operations.md prints. */
  const describeAutoscaler = async (): Promise<string> => {
    const script = 'kubectl --namespace triton describe horizontalpodautoscaler,scaledobject';
    expect(readFileSync(join(paths.root, 'docs', 'operations.md'), 'utf8')).toContain(`\n${script}\n`);
    const env = { ...process.env, KUBECONFIG: plane.access.kubeconfigFile() };
    return (await exec('bash', ['-euc', script], { env })).stdout;
  };

  beforeAll(async () => {
    const authority = new Authority(scratch);
    plane = await ControlPlane.start(scratch, { flags: aggregationFlags(scratch, authority) });
    await plane.addNode({ name: 'node-0' });
    const directory = join(scratch.directory, 'prometheus');
    mkdirSync(directory);
    prometheus = await TestPrometheus.create(plane.processes, directory);

    const autoscaling = { minReplicas: 1, maxReplicas: MOST_PODS } as const;
    const { resources } = await registered(() => {
      new TritonServer(NAME, {
        ...ARGS,
        replicas: 1,
        gpusPerPod: 0,
        autoscaling: { ...autoscaling, prometheusUrl: prometheus.url },
        monitoring: { slo: { p99Milliseconds: 5000, errorRate: 0.01 } },
      });
      return {};
    }, 'test');
    manifests = getManifests(resources);

    const repository = writeRepository(join(scratch.directory, 'repository'), REPOSITORY);
    const servers: TestTriton[] = [];
    for (let i = 0; i < MOST_PODS; i += 1)
      servers.push(await testTriton(scratch, repository, { name: `triton-${i}`, extraArguments: SUMMARY_FLAGS }));
    fleet = new Fleet(plane, servers, join(directory, 'targets.json'));
    load = new Load(() => fleet.serving);

    const clusterMetrics = await serveClusterMetrics(scratch, plane, NAME, (pod) => fleet.memory(pod));
    const kedaMetrics = await startKeda(scratch, plane, authority);
    await plane.client.objects.create(only('Namespace'));
    // KEDA reads the Secrets in the variables of the Deployment's container.
    const secrets = manifests.filter(({ kind }) => kind === 'Secret');
    // A stack removes replicas after ten minutes of lower load.
    const scaling = JSON.parse(
      JSON.stringify(only('ScaledObject')).replace(
        '"stabilizationWindowSeconds":600',
        '"stabilizationWindowSeconds":30',
      ),
    ) as Manifest;
    for (const manifest of [...secrets, only('ServiceAccount'), only('Deployment'), scaling])
      await plane.client.objects.create(manifest);
    writeFileSync(join(directory, 'rules.json'), JSON.stringify(only('PrometheusRule')['spec']));
    prometheus.configure(configuration(only('ServiceMonitor'), { clusterMetrics, kedaMetrics }));
    await prometheus.start();
    scratch.defer(() => fleet.stop());
    scratch.defer(() => load.stop());
    fleet.start();
    await until('the first pod serves', () => fleet.serving.length === 1);
  }, BUILD_MS);

  test(
    'a load adds pods, up to the maximum',
    async () => {
      load.start();
      await until('all pods serve', () => fleet.serving.length === MOST_PODS, LONG_MS);
      expect(fleet.desired).toEqual([1, 2, 3]);
      expect(load.failures).toEqual([]);
      const printed = await describeAutoscaler();
      expect(printed).toMatch(/^ +ScalingActive +True/m);
      expect(printed).not.toMatch(FALLS_BACK);
    },
    LONG_MS,
  );

  test('Prometheus evaluates each rule without an error, and no alert fires', async () => {
    const rules = await prometheus.rules();
    expect(rules.length).toBeGreaterThan(10);
    expect(rules.filter(({ health }) => health === 'err')).toEqual([]);
    expect(rules.filter(({ state }) => state === 'firing').map(({ name }) => name)).toEqual([]);
  });

  test('each panel of the dashboard draws the load in its unit', async () => {
    const all = panels(only('ConfigMap', `${NAME}-dashboard`));
    const { expr: requestsByReplica = '' } = all.find(({ title }) => title === 'Requests by replica')?.targets[0] ?? {};
    await until('Prometheus knows the requests of all replicas', async () => {
      const replicas = await prometheus.range(drawnQuery(requestsByReplica), 0, SCRAPE_SECONDS);
      return replicas.filter(({ values }) => Number(values[0]?.[1]) > 1).length === MOST_PODS;
    });
    const last = new Map<string, number[]>();
    for (const panel of all) {
      const [least, most] = RANGES[panel.title] ?? RANGES[panel.fieldConfig.defaults.unit] ?? [NaN, NaN];
      for (const { expr, legendFormat } of panel.targets) {
        const name = `${panel.title}: ${legendFormat}`;
        const series = await prometheus.range(drawnQuery(expr), 60, SCRAPE_SECONDS);
        const values = series.flatMap((one) => one.values.map(([, value]) => Number(value)));
        expect([name, values.length > 0]).toEqual([name, true]);
        expect([name, values.filter((value) => !(value >= least && value <= most))]).toEqual([name, []]);
        last.set(
          name,
          series.map((one) => Number(one.values.at(-1)?.[1])),
        );
      }
    }
    // Values in seconds or microseconds are outside of these limits on every machine.
    for (const title of ['Mean request duration', 'Mean compute time']) {
      const values = last.get(`${title}: {{model}} {{version}}`) ?? [];
      expect(Math.min(...values)).toBeGreaterThan(0.9 * REQUEST_MS);
      expect(Math.max(...values)).toBeLessThan(1000 * REQUEST_MS);
    }
    const replicas = ['desired', 'maximum', 'minimum', 'autoscaler wants'].map((of) => last.get(`Replicas: ${of}`));
    expect(replicas).toEqual([[MOST_PODS], [MOST_PODS], [1], [MOST_PODS]]);
    expect(last.get('Autoscaler: what it read, share of the goal: {{metric_name}}')).toHaveLength(2);
    expect(last.get('Autoscaler: conditions that hold: {{condition}}')).toHaveLength(3);
  });

  test(
    'without Prometheus the number of pods stays the same, although the load ends',
    async () => {
      await prometheus.stop();
      await load.stop();
      await until(
        'KEDA falls back',
        async () => {
          const { status } = await plane.client.objects.read<ScaledObject>(identity(only('ScaledObject')));
          return (
            status?.conditions?.some(({ type, status: is }) => type === 'Fallback' && is === 'True') === true &&
            Object.values(status.health ?? {}).every(({ numberOfFailures }) => numberOfFailures >= FAILURES)
          );
        },
        LONG_MS,
      );
      expect(fleet.desired).toEqual([1, 2, 3]);
      expect(fleet.serving).toHaveLength(MOST_PODS);
      const printed = await describeAutoscaler();
      expect(printed).toMatch(FALLS_BACK);
      expect(printed).toMatch(/^ +ScalingActive +True/m);
      expect(printed).toMatch(/^ +Status: +Failing$/m);
      const log = readFileSync(join(plane.processes.directory, 'keda-operator.log'), 'utf8');
      expect(log.split('\n').slice(-50).join('\n')).toMatch(/connection refused/);
    },
    LONG_MS,
  );

  test(
    'without load and with Prometheus again, the pods go one by one, down to the minimum',
    async () => {
      await prometheus.start();
      await until('one pod serves', () => fleet.serving.length === 1, LONG_MS);
      expect(fleet.desired).toEqual([1, 2, 3, 2, 1]);
    },
    LONG_MS,
  );
});

interface ScaledObject extends KubernetesObject {
  status?: {
    conditions?: { type: string; status: string }[];
    health?: Record<string, { numberOfFailures: number }>;
  };
}

const identity = ({ apiVersion, kind, metadata }: Manifest): KubernetesObject & { metadata: { name: string } } => ({
  apiVersion,
  kind,
  metadata,
});

function panels(configMap: Manifest): Panel[] {
  const [text = ''] = Object.values(configMap['data'] as Record<string, string>);
  return (JSON.parse(text) as { panels: Panel[] }).panels;
}

/** The query with the value that Grafana gives to its variable for a short time range. */
const drawnQuery = (expression: string): string => expression.replaceAll('$__rate_interval', `${4 * SCRAPE_SECONDS}s`);

interface ServiceMonitorSpec {
  endpoints: {
    interval: string;
    scrapeTimeout: string;
    path: string;
    metricRelabelings: { sourceLabels: string[]; regex: string; action: string }[];
  }[];
}

/** The configuration that the Prometheus operator writes for the ServiceMonitor, except that a file has the targets. */
function configuration(
  monitor: Manifest,
  { clusterMetrics, kedaMetrics }: { clusterMetrics: number; kedaMetrics: number },
): object {
  const [endpoint] = (monitor['spec'] as ServiceMonitorSpec).endpoints;
  if (endpoint === undefined) throw new Error('the ServiceMonitor has no endpoint');
  const on = (port: number, labels = {}): object[] => [{ targets: [`127.0.0.1:${port}`], labels }];
  return {
    global: { scrape_interval: `${SCRAPE_SECONDS}s`, evaluation_interval: `${SCRAPE_SECONDS}s` },
    rule_files: ['rules.json'],
    scrape_configs: [
      {
        job_name: NAME,
        scrape_interval: endpoint.interval,
        scrape_timeout: endpoint.scrapeTimeout,
        metrics_path: endpoint.path,
        metric_relabel_configs: endpoint.metricRelabelings.map(({ sourceLabels, regex, action }) => ({
          source_labels: sourceLabels,
          regex,
          action,
        })),
        file_sd_configs: [{ files: ['targets.json'], refresh_interval: '1s' }],
      },
      { job_name: 'cluster', honor_labels: true, static_configs: on(clusterMetrics) },
      { job_name: 'keda-operator', static_configs: on(kedaMetrics, { namespace: 'keda' }) },
    ],
  };
}

/** Gives each pod that KWOK reports as ready one of the real servers, to Prometheus and to clients. */
class Fleet {
  /** Each number of replicas that the Deployment has had. */
  readonly desired: number[] = [];
  private readonly servers = new Map<string, TestTriton>();
  private following: Promise<void> = Promise.resolve();
  private isStopping = false;

  constructor(
    private readonly plane: ControlPlane,
    private readonly all: readonly TestTriton[],
    private readonly targetFile: string,
  ) {}

  get serving(): TestTriton[] {
    return [...this.servers.values()];
  }

  memory(pod: string): number {
    const pid = this.servers.get(pod)?.pid;
    return pid === undefined ? 0 : getMemory(pid);
  }

  start(): void {
    this.following = this.follow();
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    await this.following;
  }

  private async follow(): Promise<void> {
    while (!this.isStopping) {
      // A busy API server may not answer in time.
      await this.update().catch(() => undefined);
      await sleep(500);
    }
  }

  private async update(): Promise<void> {
    const { spec } = await this.plane.client.apps.readNamespacedDeployment({ namespace: NAME, name: NAME });
    const { replicas = 0 } = spec ?? {};
    if (this.desired.at(-1) !== replicas) this.desired.push(replicas);

    const pods = (await this.plane.pods(NAME)).filter(isServing).map(({ metadata }) => metadata?.name ?? '');
    for (const pod of this.servers.keys()) if (!pods.includes(pod)) this.servers.delete(pod);
    for (const pod of pods) {
      const free = this.all.find((server) => !this.serving.includes(server));
      if (!this.servers.has(pod) && free !== undefined) this.servers.set(pod, free);
    }
    const targets = [...this.servers].map(([pod, { metricsUrl }]) => ({
      targets: [new URL(metricsUrl).host],
      labels: { namespace: NAME, pod },
    }));
    writeFileSync(this.targetFile, JSON.stringify(targets));
  }
}

/** A constant number of requests in flight, evenly spread over the servers. */
class Load {
  readonly failures: string[] = [];
  private isStopping = false;
  private running: Promise<unknown> = Promise.resolve();

  constructor(private readonly servers: () => readonly TestTriton[]) {}

  start(): void {
    this.running = Promise.all(Array.from({ length: IN_FLIGHT }, (_, index) => this.send(index)));
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    await this.running;
  }

  private async send(index: number): Promise<void> {
    const input = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(index) } as const;
    while (!this.isStopping) {
      const servers = this.servers();
      const server = servers[index % servers.length];
      try {
        await server?.client.infer(MODEL, [input]);
      } catch (error) {
        this.failures.push((error as Error).message);
        await sleep(1000);
      }
    }
  }
}
