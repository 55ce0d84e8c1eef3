import { createReadStream, createWriteStream, statSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
// This package is slow to load, so this file is imported only when a cluster is used.
import { BatchV1Api, CoreV1Api } from '@kubernetes/client-node';
import { UserError } from '../../core/errors';
import { explainCluster } from './cluster-errors';
import { KubernetesReplicas } from './kubernetes';
import { loadKubeconfig } from './kubeconfig';
import { BUILDER_PORT, type BuilderOutput } from './builder-output';

const PERMISSIONS =
  'verbs "create", "get" and "delete" on "jobs" of group "batch", "list" on "pods", "get" and "create" on "pods/portforward"';

/** A node may have to start and to pull an image of 10 GB, and a large model compiles for minutes. */
const LONGEST_SECONDS = 2 * 60 * 60;
/** What is left of a Job whose builder could not delete it. */
const KEEP_SECONDS = 600;
/** Pods that may end, for example with their node. */
const RETRIES = 3;
const PAUSE_MS = 1000;
/** A connection without data is broken. The server answers each request at once. */
const SILENCE_MS = 60_000;

export interface BuilderOptions {
  kubeconfig: string;
  namespace: string;
  builder: BuilderOutput;
  /** Text of python/tracing/build_server.py. */
  program: string;
  signal?: AbortSignal | undefined;
  /** Called with what it waits for. */
  onStage?: (text: string) => void;
}

/** A command to run in the pod. */
export interface PodCommand {
  /** Path in the pod -> file here. */
  files: Readonly<Record<string, string>>;
  /** A module of Python, and its arguments. */
  command: string[];
  /** The file that it writes: its path in the pod, and here. */
  result: { from: string; to: string };
}

/** The pod ended, or its connection. */
class PodGoneError extends Error {}

/**
 * A Job of the stack whose pod compiles models. Everything goes through a port-forward, so the pod needs no network and no
 * credentials. If the pod ends, Kubernetes starts another one, which gets everything again.
 */
export class Builder {
  private readonly jobs: BatchV1Api;
  private readonly pods: CoreV1Api;
  private readonly replicas: KubernetesReplicas;

  private constructor(
    private readonly options: BuilderOptions,
    private readonly name: string,
    private readonly config = loadKubeconfig(options.kubeconfig),
  ) {
    this.jobs = config.makeApiClient(BatchV1Api);
    this.pods = config.makeApiClient(CoreV1Api);
    const { kubeconfig, namespace } = options;
    this.replicas = new KubernetesReplicas({ kubeconfig, namespace, selector: this.selector });
  }

  /** Creates the Job. @throws UserError */
  static async start(options: BuilderOptions): Promise<Builder> {
    const name = `triton-build-${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}`;
    const builder = new Builder(options, name);
    const { namespace } = options;
    await builder.call(
      `create job ${name}`,
      builder.jobs.createNamespacedJob({ namespace, body: toJob(name, options) }),
    );
    return builder;
  }

  private get selector(): string {
    return `batch.kubernetes.io/job-name=${this.name}`;
  }

  /**
   * Runs a command in the pod.
   * @returns the last line of its output, once the result is here
   * @throws UserError if the command or the Job fails
   */
  async run(work: PodCommand): Promise<string> {
    for (;;) {
      this.options.signal?.throwIfAborted();
      const url = await this.findPod();
      try {
        return await this.runAt(url, work);
      } catch (error) {
        if (error instanceof UserError) throw error;
        this.options.onStage?.(`lost the pod of job ${this.name} (${(error as Error).message})`);
        await this.pause();
      }
    }
  }

  /** Deletes the Job with its pod. */
  async close(): Promise<void> {
    await this.replicas.close();
    const { namespace } = this.options;
    const deletion = this.jobs.deleteNamespacedJob({ name: this.name, namespace, propagationPolicy: 'Background' });
    await this.call(`delete job ${this.name}`, deletion);
  }

  /** Address of the running pod. */
  private async findPod(): Promise<string> {
    const { namespace, onStage } = this.options;
    for (let shown = ''; ;) {
      const job = await this.call(`read job ${this.name}`, this.jobs.readNamespacedJob({ name: this.name, namespace }));
      const ended = job.status?.conditions?.find(
        ({ type, status }) => status === 'True' && (type === 'Failed' || type === 'Complete'),
      );
      if (ended !== undefined) {
        throw new UserError(`job ${this.name} ended: ${ended.message ?? ended.type}${await this.lastWords()}`, {
          hint: `run the command again; "kubectl get pods,events -n ${namespace}" shows more`,
        });
      }
      const [pod] = await this.replicas.list();
      if (pod?.ready === true) return pod.tritonUrl;
      const waiting = await this.whyWaiting();
      if (waiting !== shown) onStage?.(`wait for a pod of job ${this.name}${waiting}`);
      shown = waiting;
      await this.pause();
    }
  }

  private async list() {
    const { namespace } = this.options;
    const listing = this.pods.listNamespacedPod({ namespace, labelSelector: this.selector });
    return (await this.call('list pods', listing)).items;
  }

  private async whyWaiting(): Promise<string> {
    for (const { status } of await this.list()) {
      const waiting = status?.containerStatuses?.[0]?.state?.waiting;
      const scheduled = status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False');
      const reason = waiting?.message ?? waiting?.reason ?? scheduled?.message;
      if (reason !== undefined) return `: ${reason}`;
    }
    return '';
  }

  private async lastWords(): Promise<string> {
    const ends = (await this.list()).flatMap(({ status }) => status?.containerStatuses?.[0]?.state?.terminated ?? []);
    const last = ends.at(-1);
    return last === undefined
      ? ''
      : ` (exit code ${last.exitCode}${last.reason === undefined ? '' : `, ${last.reason}`})`;
  }

  private async runAt(url: string, { files, command, result }: PodCommand): Promise<string> {
    for (const [path, file] of Object.entries(files)) await this.put(`${url}/files/${path}`, file);
    const { id } = await this.state(url);
    const body = JSON.stringify(command);
    await this.send(`${url}/run`, { method: 'POST', headers: { 'content-length': Buffer.byteLength(body) } }, body);
    for (;;) {
      await this.pause();
      const state = await this.state(url);
      if (state.id !== id) throw new PodGoneError('it was started again');
      if (state.running) continue;
      if (state.code !== 0) {
        const lines = state.output.trim().split('\n').slice(-20).join('\n  ');
        throw new UserError(`${command[0]} failed in the pod with exit code ${state.code}:\n  ${lines}`);
      }
      const answer = state.output.trim().split('\n').at(-1) ?? '';
      // After a failure that the command reports, there is no result.
      if (!answer.includes('"error"')) await this.get(`${url}/files/${result.from}`, result.to);
      return answer;
    }
  }

  private async state(url: string): Promise<{ id: string; running: boolean; code: number | null; output: string }> {
    const answer = await this.send(`${url}/run`, {});
    return JSON.parse(answer) as Awaited<ReturnType<Builder['state']>>;
  }

  private async put(url: string, file: string): Promise<void> {
    await this.send(url, { method: 'PUT', headers: { 'content-length': statSync(file).size } }, createReadStream(file));
  }

  private async get(url: string, file: string): Promise<void> {
    const response = await this.open(url, {});
    await pipeline(response, createWriteStream(file));
    if (statSync(file).size !== Number(response.headers['content-length'])) throw new PodGoneError('a part is missing');
  }

  private async send(url: string, options: object, body?: string | NodeJS.ReadableStream): Promise<string> {
    return text(await this.open(url, options, body));
  }

  /** @throws PodGoneError, and errors of the connection */
  private async open(url: string, options: object, body?: string | NodeJS.ReadableStream): Promise<IncomingMessage> {
    const { signal } = this.options;
    const asked = request(url, { ...options, agent: false, timeout: SILENCE_MS, signal });
    asked.on('timeout', () => asked.destroy(new PodGoneError(`no answer in ${SILENCE_MS / 1000} s`)));
    const answered = new Promise<IncomingMessage>((resolve, reject) =>
      asked.on('response', resolve).on('error', reject),
    );
    if (body === undefined || typeof body === 'string') asked.end(body);
    else await pipeline(body, asked);
    const response = await answered;
    if (response.statusCode !== 200) throw new PodGoneError(`HTTP ${response.statusCode}: ${await text(response)}`);
    return response;
  }

  private async pause(): Promise<void> {
    await sleep(PAUSE_MS, undefined, { signal: this.options.signal });
  }

  private call<T>(what: string, calling: Promise<T>): Promise<T> {
    return calling.catch((error: unknown) => {
      const { namespace } = this.options;
      const { config } = this;
      const server = config.getCurrentCluster()?.server ?? '';
      const where = { server, context: config.getCurrentContext(), namespace, permissions: PERMISSIONS };
      throw explainCluster({ what: `${what} in namespace ${namespace}`, ...where }, error);
    });
  }
}

function toJob(name: string, { builder, program }: BuilderOptions): object {
  const { labels, spec } = builder;
  const containers = spec.containers.map((container) => ({
    ...container,
    command: ['python3', '-c', program, String(BUILDER_PORT)],
  }));
  return {
    metadata: { name, labels },
    spec: {
      activeDeadlineSeconds: LONGEST_SECONDS,
      backoffLimit: RETRIES,
      ttlSecondsAfterFinished: KEEP_SECONDS,
      // Karpenter would move it to another node, where everything begins again.
      template: {
        metadata: { labels, annotations: { 'karpenter.sh/do-not-disrupt': 'true' } },
        spec: { ...spec, containers },
      },
    },
  };
}
