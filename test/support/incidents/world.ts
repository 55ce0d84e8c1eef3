import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TritonServer } from '../../../infra/triton/server';
import { CommandError, exec } from '../../../src/core/exec';
import { ControlPlane } from '../control-plane';
import { listenOnLoopback, passOn, type LoopbackServer } from '../loopback';
import { getManifests, type Manifest } from '../manifests';
import { testPulumi, type TestPulumi } from '../pulumi';
import { registered } from '../registered-stack';
import { ARGS } from '../render';
import { runCommandLine } from '../run';
import { S3_ENVIRONMENT, openBucket, testS3 } from '../s3';
import { defineStubCrds } from '../stub-crds';
import type { Scratch } from '../temp-dir';
import { until } from '../wait-for';
import { Kubelet, type RunningPod } from './kubelet';
import { Authority, startTlsFront } from '../authority';
import { isHealthy } from '../../../src/local/process/health-check';
import { freePorts } from '../../../src/local/process/ports';
import { ensurePrometheus } from '../../../tools/toolchain/promtool';
import type { ClusterProcesses } from '../api-server';

/** An alert that is pending or firing. */
interface ActiveAlert {
  labels: Record<string, string>;
  state: 'pending' | 'firing';
}

/**
 * Starts a real Prometheus on loopback.
 * @param configuration as in prometheus.yml
 * @returns a function that lists the active alerts
 */
async function startPrometheus(
  processes: ClusterProcesses,
  directory: string,
  configuration: object,
): Promise<() => Promise<ActiveAlert[]>> {
  const file = join(directory, 'prometheus.yml');
  // JSON is valid YAML.
  writeFileSync(file, JSON.stringify(configuration));
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const args = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(directory, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--query.lookback-delta=15s',
  ];
  await processes.start({ name: 'prometheus', command: await ensurePrometheus(), args }, () =>
    isHealthy(`${url}/-/ready`),
  );
  return async () => {
    const { data, error } = (await (await fetch(`${url}/api/v1/alerts`)).json()) as {
      data: { alerts: ActiveAlert[] };
      error?: string;
    };
    if (error !== undefined) throw new Error(error);
    return data.alerts;
  };
}

interface RuleGroup {
  name: string;
  interval?: string;
  rules: { record?: string; alert?: string; expr: string; for?: string; labels?: object; annotations?: object }[];
}

const MILLISECONDS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Ranges, steps of subqueries, and offsets. */
const DURATION = /(?<=\[|:|offset )(\d+)([smhd])/g;

/** Ages in seconds: `time() - METRIC > 300`. */
const AGE = /(time\(\) - [^<>]+ [<>] )(\d+)/g;

/** The rules of an hour for an hour divided by `factor`: their times are shorter, and their limits are the same. */
function shortRules(groups: readonly RuleGroup[], factor: number): RuleGroup[] {
  const shorter = (text: string): string =>
    text.replace(DURATION, (_, count: string, unit: keyof typeof MILLISECONDS) => {
      return `${Math.ceil((Number(count) * MILLISECONDS[unit]) / factor)}ms`;
    });
  return groups.map((group) => ({
    ...group,
    interval: '1s',
    rules: group.rules.map((rule) => ({
      ...rule,
      expr: shorter(rule.expr).replace(AGE, (_, age: string, seconds: string) => `${age}${Number(seconds) / factor}`),
      ...(rule.for === undefined ? {} : { for: shorter(`[${rule.for}`).slice(1) }),
    })),
  }));
}

/** A real bucket behind HTTPS, which can be away. */
class Bucket {
  private isAway = false;

  private constructor(
    readonly name: string,
    /** Certificate of the authority that publishers and agents trust. */
    readonly caFile: string,
    private readonly gate: LoopbackServer,
  ) {}

  get endpoint(): string {
    return `https://127.0.0.1:${this.gate.port}`;
  }

  static async start(scratch: Scratch, name: string): Promise<Bucket> {
    const authority = new Authority(scratch);
    const { endpoint } = await testS3(scratch);
    await openBucket(scratch, endpoint, name);
    const front = await startTlsFront(endpoint, authority);
    scratch.defer(() => front.stop());
    const gate: LoopbackServer = await passOn(Number(new URL(front.endpoint).port), () => !bucket.isAway);
    scratch.defer(gate.stop);
    const bucket = new Bucket(name, authority.caFile, gate);
    return bucket;
  }

  /** Closes connections, also those that are open, or accepts them again. */
  setAway(isAway: boolean): void {
    this.isAway = isAway;
    this.gate.cut();
  }
}

type Labels = Readonly<Record<string, string>>;

/** Deployments count as older than they are, because some alerts ignore one that was just created. */
const AGE_SECONDS = 86_400;

/**
 * Serves the series of kube-state-metrics about Deployments, from the objects in a namespace. kube-state-metrics itself is in
 * no registry that the tests use.
 * @returns the port
 */
async function serveClusterMetrics(scratch: Scratch, plane: ControlPlane, namespace: string): Promise<number> {
  const server = createServer((_, response) => {
    metrics(plane, namespace).then(
      (lines) => {
        // Prometheus rejects an answer without a type.
        response.setHeader('content-type', 'text/plain; version=0.0.4');
        response.end(lines.map((line) => `${line}\n`).join(''));
      },
      () => response.writeHead(500).end(),
    );
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  return port;
}

async function metrics(plane: ControlPlane, namespace: string): Promise<string[]> {
  const lines: string[] = [];
  const add = (metric: string, labels: Labels, value: number | undefined): void => {
    const text = Object.entries({ namespace, ...labels }).map(([name, one]) => `${name}=${JSON.stringify(one)}`);
    lines.push(`${metric}{${text.join(',')}} ${value ?? 0}`);
  };
  for (const { metadata, spec, status } of (await plane.client.apps.listNamespacedDeployment({ namespace })).items) {
    const labels = { deployment: metadata?.name ?? '' };
    add('kube_deployment_created', labels, (metadata?.creationTimestamp?.getTime() ?? 0) / 1000 - AGE_SECONDS);
    add('kube_deployment_metadata_generation', labels, metadata?.generation);
    add('kube_deployment_spec_replicas', labels, spec?.replicas);
    add('kube_deployment_status_replicas_available', labels, status?.availableReplicas);
  }
  return lines;
}

/** Times in the rules are this much shorter, so that half an hour takes a minute. */
export const FACTOR = 30;

/** The names in docs/runbook.md. */
const NAME = 'triton';
const STACK = 'prod';
export const REPLICAS = 3;

/** Requests per second of the load to each model. */
const RATE = 5;

/**
 * A stack with release agents in the state of an ordinary day: a control plane, pods that are real servers
 * (Kubelet), a bucket, Prometheus with the rules of the stack, and clients.
 */
export class World {
  /** Whether a network policy hides the replicas from Prometheus. */
  isHidden = false;
  /** Models to which clients send requests. */
  clients = new Map<string, number>();
  /** Lists the alerts that are pending or firing. */
  alerts: () => Promise<ActiveAlert[]> = () => Promise.resolve([]);
  private isStopping = false;

  private constructor(
    readonly scratch: Scratch,
    readonly plane: ControlPlane,
    readonly bucket: Bucket,
    readonly kubelet: Kubelet,
    private readonly pulumi: TestPulumi,
    private readonly directory: string,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  static async start(scratch: Scratch): Promise<World> {
    const directory = join(scratch.directory, 'world');
    mkdirSync(directory);
    // `kubectl exec` finds programs as KWOK does.
    writeFileSync(join(directory, 'nvidia-smi'), '#!/bin/sh\n', { mode: 0o755 });
    const path = process.env['PATH'];
    process.env['PATH'] = `${directory}:${path}`;
    scratch.defer(() => void (process.env['PATH'] = path));

    const bucket = await Bucket.start(scratch, 'incidents');
    const repository = `s3://${bucket.name}/models`;
    const { resources } = await registered(() => {
      new TritonServer(NAME, {
        ...ARGS,
        modelRepository: repository,
        replicas: REPLICAS,
        gpusPerPod: 1,
        monitoring: { namespace: 'monitoring' },
      });
      return {};
    }, 'test');
    const manifests = getManifests(resources);
    const only = (kind: string, name = NAME): Manifest => {
      const [found] = manifests.filter((one) => one.kind === kind && one.metadata.name === name);
      if (found === undefined) throw new Error(`the stack has no ${kind} ${name}`);
      return found;
    };

    const plane = await ControlPlane.start(scratch, { simulatePods: false });
    for (const index of [0, 1, 2]) await plane.addGpuNode(`gpu-${index}`);
    // Of kinds that commands of the runbook list.
    await defineStubCrds(plane, ['karpenter.sh', 'monitoring.coreos.com']);
    const s3 = { ...S3_ENVIRONMENT, AWS_ENDPOINT_URL_S3: bucket.endpoint, NODE_EXTRA_CA_CERTS: bucket.caFile };
    const kubelet = new Kubelet(scratch, plane, {
      namespace: NAME,
      bucket: repository,
      env: { PATH: path, ...s3 },
      factor: FACTOR,
    });
    const kubeconfig = JSON.parse(plane.access.kubeconfig()) as { contexts: { name: string }[] };
    for (const context of kubeconfig.contexts) context.name = STACK;
    const text = JSON.stringify({ ...kubeconfig, 'current-context': STACK });
    writeFileSync(join(directory, 'kubeconfig'), text, { mode: 0o600 });
    const pulumi = await testPulumi(scratch);
    await pulumi.createStack(
      STACK,
      {
        modelRepository: repository,
        region: 'us-east-1',
        endpointUrl: bucket.endpoint,
        namespace: NAME,
        podSelector: 'app.kubernetes.io/name=triton',
        bake: JSON.stringify({ minutes: 1, maxErrorRate: 0.001, maxLatencyRatio: 100 }),
      },
      { kubeconfig: text },
    );
    const env = { ...pulumi.env, ...s3, KUBECONFIG: join(directory, 'kubeconfig') };
    const world = new World(scratch, plane, bucket, kubelet, pulumi, directory, env);

    writeFileSync(
      join(directory, 'rules.json'),
      JSON.stringify({ groups: shortRules((only('PrometheusRule')['spec'] as { groups: [] }).groups, FACTOR) }),
    );
    const clusterMetrics = await serveClusterMetrics(scratch, plane, NAME);
    for (const kind of ['Namespace', 'ServiceAccount'])
      for (const manifest of manifests.filter((one) => one.kind === kind)) await plane.client.objects.create(manifest);
    const deployment = only('Deployment') as Manifest & { spec: { minReadySeconds: number } };
    deployment.spec.minReadySeconds = 1;
    await plane.client.objects.create(deployment);
    const metrics = await world.serveMetrics();
    world.follow(metrics);
    kubelet.start();
    scratch.defer(() => kubelet.stop());
    world.alerts = await startPrometheus(plane.processes, directory, configuration(clusterMetrics));
    return world;
  }

  /** Serves Triton's metrics, at the path of a pod, with those of the GPU that this machine lacks. */
  private async serveMetrics(): Promise<number> {
    const server = createServer((request, response) => {
      const pod = this.kubelet.running.find(({ name }) => `/${name}` === request.url);
      const answer = async (): Promise<string> => {
        if (pod === undefined || this.isHidden) throw new Error('no such pod');
        const text = await (await fetch(pod.triton.metricsUrl)).text();
        return `${text}nv_gpu_memory_total_bytes{gpu_uuid="GPU-0"} 2.4e10\n`;
      };
      answer().then(
        (text) => response.setHeader('content-type', 'text/plain; version=0.0.4').end(text),
        () => response.socket?.destroy(),
      );
    });
    const { port, stop } = await listenOnLoopback(server);
    this.scratch.defer(stop);
    return port;
  }

  /** Tells Prometheus which pods exist, and sends the requests of clients. */
  private follow(metrics: number): void {
    const loop = async (): Promise<void> => {
      while (!this.isStopping) {
        const { running, serving } = this.kubelet;
        const targets = (address: (pod: RunningPod) => string, more: (pod: RunningPod) => object): string =>
          JSON.stringify(
            running.map((pod) => ({
              targets: [address(pod)],
              labels: { namespace: NAME, pod: pod.name, ...more(pod) },
            })),
          );
        writeFileSync(
          join(this.directory, 'triton.json'),
          targets(
            () => `127.0.0.1:${metrics}`,
            ({ name }) => ({ __metrics_path__: `/${name}` }),
          ),
        );
        writeFileSync(
          join(this.directory, 'agent.json'),
          targets(
            ({ ports }) => `127.0.0.1:${ports[8091]}`,
            () => ({}),
          ),
        );
        for (const [model, value] of this.clients)
          for (const pod of serving) void pod.triton.client.infer(model, [input(value)]).catch(() => undefined);
        await sleep(1000 / RATE);
      }
    };
    const running = loop();
    this.scratch.defer(async () => {
      this.isStopping = true;
      await running;
    });
  }

  /** Runs a command of the runbook. */
  async run(command: string): Promise<{ succeeds: boolean; printed: string }> {
    this.kubelet.showLogs();
    const [, script, flags = ''] = /^npm run ([\w-]+) -- (.*)$/.exec(command) ?? [];
    if (script !== undefined) {
      const args = [...flags.split(' '), '--stack-dir', this.pulumi.directory];
      const { code, stdout, stderr } = await runCommandLine(script, args, this.env);
      return { succeeds: code === 0, printed: stdout + stderr };
    }
    try {
      const { stdout, stderr } = await exec('bash', ['-c', command], { env: this.env });
      return { succeeds: true, printed: stdout + stderr };
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      return { succeeds: false, printed: `${error.message}\n${error.output.stdout}\n${error.output.stderr}` };
    }
  }

  /** Publishes a folder with models. */
  async publish(repository: string, ...flags: string[]): Promise<void> {
    const command = ['npm run sync-models -- --stack', STACK, '--repo', repository, ...flags].join(' ');
    const { succeeds, printed } = await this.run(command);
    if (!succeeds) throw new Error(`${command}: ${printed}`);
  }

  /** Waits until every replica serves, and no alert is active. */
  async untilHealthy(): Promise<void> {
    await until(
      'every replica serves, and no alert is active',
      async () => {
        const alerts = await this.alerts();
        return this.kubelet.serving.length === REPLICAS && alerts.length === 0;
      },
      10 * 60_000,
    );
  }
}

const input = (value: number) => ({ name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(value) }) as const;

/** The configuration that the Prometheus operator writes for both monitors, with files instead of Endpoints. */
function configuration(clusterMetrics: number): object {
  const pods = (file: string): object => ({ file_sd_configs: [{ files: [file], refresh_interval: '1s' }] });
  return {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ['rules.json'],
    scrape_configs: [
      { job_name: NAME, ...pods('triton.json') },
      { job_name: `${NAME}/${NAME}-agent`, ...pods('agent.json') },
      { job_name: 'cluster', honor_labels: true, static_configs: [{ targets: [`127.0.0.1:${clusterMetrics}`] }] },
    ],
  };
}
