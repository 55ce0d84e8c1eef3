import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { KubernetesObject, V1Container, V1ContainerStatus, V1Pod } from '@kubernetes/client-node';
import { agentProgram } from '../../../infra/triton/agent/program';
import { paths } from '../../../src/core/paths';
import { KEY_FILE } from '../../../src/agent/pod-files';
import { freePorts } from '../../../src/local/process/ports';
import type { ControlPlane } from '../control-plane';
import type { Scratch } from '../temp-dir';
import { testTriton, TEST_CONTROL_KEY, type TestTriton } from '../triton';

const LOOP_MS = 300;
const PROBE = join(paths.root, 'infra', 'triton', 'agent', 'probe.sh');

export interface KubeletOptions {
  namespace: string;
  /** `s3://BUCKET/PREFIX` */
  bucket: string;
  /** Environment of the agents. */
  env: NodeJS.ProcessEnv;
  /** By how much the waits of the agents are shorter. */
  factor: number;
}

/**
 * Waits of the agent, in its program: between two requests for the release, after a failure, before it follows, and for an
 * answer of S3.
 */
const WAITS = /(?<=\.(?:deadlineMs|pollMs|retryMs|spreadMs)\?\?)\d+(?:e\d)?/g;

/**
 * Runs the pods of a namespace in place of a kubelet: a real Triton and the real program of the agent for each pod, with
 * readiness from the probe. KWOK answers `kubectl logs`, `exec` and `port-forward` from these processes. Pods end at once,
 * without draining, and also those whose node is gone.
 */
export class Kubelet {
  private readonly pods = new Map<string, RunningPod>();
  private readonly program: string;
  private following: Promise<void> = Promise.resolve();
  private isStopping = false;

  constructor(
    private readonly scratch: Scratch,
    private readonly plane: ControlPlane,
    private readonly options: KubeletOptions,
  ) {
    const { 'agent.cjs': program, 'supervise.sh': supervise } = agentProgram();
    const waits = program.match(WAITS) ?? [];
    if (waits.length !== 4) throw new Error(`the waits of the agent's program are ${waits.join(', ')}`);
    this.program = join(scratch.directory, 'agent-program');
    mkdirSync(this.program);
    const shorter = program.replaceAll(WAITS, (ms) => String(Math.ceil(Number(ms) / options.factor)));
    writeFileSync(join(this.program, 'agent.cjs'), shorter);
    writeFileSync(join(this.program, 'supervise.sh'), supervise);
  }

  /** Pods whose processes run, by name. */
  get running(): RunningPod[] {
    return [...this.pods.values()];
  }

  /** Pods that serve a release. */
  get serving(): RunningPod[] {
    return this.running.filter(({ isReady }) => isReady);
  }

  start(): void {
    this.following = this.follow();
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    await this.following;
    await Promise.all(this.running.map((pod) => pod.end()));
  }

  private async follow(): Promise<void> {
    while (!this.isStopping) {
      // A busy API server may not answer in time, and controllers change the same pods.
      await this.update().catch(() => undefined);
      await sleep(LOOP_MS);
    }
  }

  private async update(): Promise<void> {
    const { core } = this.plane.client;
    const nodes = new Set((await core.listNode()).items.map(({ metadata }) => metadata?.name));
    const pods = await this.plane.pods(this.options.namespace);
    for (const [uid, running] of this.pods) {
      if (pods.some(({ metadata }) => metadata?.uid === uid)) continue;
      this.pods.delete(uid);
      await running.end();
    }
    for (const pod of pods) {
      const { name = '', uid = '', deletionTimestamp } = pod.metadata ?? {};
      const node = pod.spec?.nodeName;
      if (node === undefined) continue;
      if (deletionTimestamp !== undefined || !nodes.has(node)) {
        await this.pods.get(uid)?.end();
        await core.deleteNamespacedPod({ namespace: this.options.namespace, name, gracePeriodSeconds: 0 });
        continue;
      }
      const running = this.pods.get(uid) ?? (await this.begin(pod));
      this.pods.set(uid, running);
      await running.follow();
      const status = running.status(pod);
      if (JSON.stringify(status) === running.reported) continue;
      await core.replaceNamespacedPodStatus({
        namespace: this.options.namespace,
        name,
        body: Object.assign(pod, { status }),
      });
      running.reported = JSON.stringify(status);
    }
  }

  private async begin(pod: V1Pod): Promise<RunningPod> {
    const running = await RunningPod.start(this.scratch, pod, { ...this.options, program: this.program });
    const { namespace } = this.options;
    const create = (kind: string, spec: object): Promise<unknown> =>
      this.plane.client.objects.create({
        apiVersion: 'kwok.x-k8s.io/v1alpha1',
        kind,
        metadata: { name: running.name, namespace },
        spec,
      } as KubernetesObject);
    const logs = CONTAINERS.map((container) => ({
      containers: [container],
      logsFile: running.shownLog(container),
      previousLogsFile: running.shownLog(container),
    }));
    const forwards = Object.entries(running.ports).map(([port, target]) => ({
      ports: [Number(port)],
      target: { address: '127.0.0.1', port: target },
    }));
    await create('Logs', { logs });
    await create('PortForward', { forwards });
    await create('Exec', { execs: [{ local: {} }] });
    return running;
  }

  /** Shows what the containers have printed until now in `kubectl logs`. */
  showLogs(): void {
    for (const pod of this.running) pod.showLogs();
  }
}

const CONTAINERS = ['triton', 'agent'] as const;
type ContainerName = (typeof CONTAINERS)[number];

/** The processes of one pod. */
export class RunningPod {
  isReady = false;
  private readySince = new Date();
  /** The status that the API server has. */
  reported = '';
  private restarts = 0;
  private isEnding = false;
  private starting: Promise<unknown> | undefined;

  private constructor(
    readonly name: string,
    readonly node: string,
    private readonly directory: string,
    /** Port of a container -> port on loopback. */
    readonly ports: Readonly<Record<number, number>>,
    private readonly disk: string,
    private readonly agent: ChildProcess,
    private server: TestTriton,
  ) {
    this.watch();
  }

  static async start(scratch: Scratch, pod: V1Pod, options: KubeletOptions & { program: string }): Promise<RunningPod> {
    const { name = '' } = pod.metadata ?? {};
    const directory = join(scratch.directory, name);
    const disk = join(directory, 'disk');
    mkdirSync(join(disk, 'models'), { recursive: true });
    writeFileSync(join(disk, KEY_FILE), TEST_CONTROL_KEY);
    const [http = 0, grpc = 0, metrics = 0, control = 0, state = 0] = await freePorts(5);
    const ports = { 8000: http, 8001: grpc, 8002: metrics, 8090: control, 8091: state };
    const flags = {
      bucket: options.bucket,
      directory: disk,
      triton: `http://127.0.0.1:${http}`,
      grpc: `127.0.0.1:${grpc}`,
      'control-port': String(control),
      port: String(state),
      host: '127.0.0.1',
    };
    const args = [
      join(options.program, 'supervise.sh'),
      process.execPath,
      join(options.program, 'agent.cjs'),
      ...Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]),
    ];
    const agent = spawn('sh', args, { env: options.env, stdio: ['ignore', 'pipe', 'pipe'] });
    const log = createWriteStream(join(directory, 'agent.log'));
    agent.stdout.pipe(log, { end: false });
    agent.stderr.pipe(log, { end: false });
    // Ends the program too.
    scratch.defer(() => void agent.kill('SIGTERM'));
    const server = await testTriton(scratch, join(disk, 'models'), {
      load: [],
      name: join(name, 'triton'),
      ports: { http, grpc, metrics },
    });
    return new RunningPod(name, pod.spec?.nodeName ?? '', directory, ports, disk, agent, server);
  }

  get triton(): TestTriton {
    return this.server;
  }

  /** Starts Triton again each time that it ends. */
  private watch(): void {
    void this.server.ended.then(() => {
      if (this.isEnding) return;
      this.restarts += 1;
      this.starting = this.server.startAgain().then((server) => {
        this.server = server;
        this.starting = undefined;
        this.watch();
      });
    });
  }

  /** Runs the readiness probe. */
  async follow(): Promise<void> {
    const probe = [PROBE, this.disk, `http://127.0.0.1:${this.ports[8000]}`];
    const isAnswered = await promisify(execFile)('sh', probe).then(
      () => true,
      () => false,
    );
    const isReady = isAnswered && this.starting === undefined;
    if (isReady !== this.isReady) this.readySince = new Date();
    this.isReady = isReady;
  }

  status({ spec, status }: V1Pod): NonNullable<V1Pod['status']> {
    const ready = this.isReady ? 'True' : 'False';
    const scheduled = status?.conditions?.filter(({ type }) => type === 'PodScheduled') ?? [];
    const of = ({ name, image = '' }: V1Container): V1ContainerStatus => ({
      name,
      image,
      imageID: image,
      ready: name !== 'triton' || this.isReady,
      started: true,
      restartCount: name === 'triton' ? this.restarts : 0,
      state: { running: {} },
    });
    return {
      phase: 'Running',
      podIP: '10.1.0.1',
      conditions: [
        ...scheduled,
        { type: 'Initialized', status: 'True' },
        { type: 'ContainersReady', status: ready },
        // Kubernetes counts the seconds of `minReadySeconds` from this time.
        { type: 'Ready', status: ready, lastTransitionTime: this.readySince },
      ],
      containerStatuses: spec?.containers.map(of) ?? [],
      initContainerStatuses: spec?.initContainers?.map(of) ?? [],
    };
  }

  /** File that KWOK shows as the log of a container. */
  shownLog(container: ContainerName): string {
    return join(this.directory, `${container}.shown`);
  }

  showLogs(): void {
    const files = { triton: this.server.logFile, agent: join(this.directory, 'agent.log') };
    for (const container of CONTAINERS) {
      // The format of container runtimes.
      const lines = readFileSync(files[container], 'utf8').split('\n');
      const shown = lines.map((line) => `2026-11-26T00:00:00.000000000Z stdout F ${line}\n`);
      writeFileSync(this.shownLog(container), shown.join(''));
    }
  }

  async end(): Promise<void> {
    if (this.isEnding) return;
    this.isEnding = true;
    this.isReady = false;
    this.agent.kill('SIGTERM');
    await this.starting?.catch(() => undefined);
    await this.server.stop(0);
  }
}
