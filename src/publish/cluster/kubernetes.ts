import { PassThrough, type Readable, type Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
// This package is slow to load, so this file is imported only when a cluster is used.
import { CoreV1Api, PortForward, type KubeConfig, type V1Pod } from '@kubernetes/client-node';
import { AGENT_PORTS } from '../../release/agent-api';
import { explainCluster } from './cluster-errors';
import { loadKubeconfig } from './kubeconfig';
import { PodForward, type PodStream } from './pod-forward';
import type { Replica, ReplicaSource } from './source';

/** Timeout of one call of the cluster's API, including sign-in by a program that the kubeconfig names. */
const TIMEOUT_MS = 30_000;
const RETRY_MS = 1000;
/** Port of Triton's HTTP API, if the pod names no other one. */
const TRITON_PORT = 8000;

export interface KubernetesReplicaOptions {
  /** Text (YAML or JSON) or path. Default: found as kubectl does. */
  kubeconfig?: string | undefined;
  /** Default: the kubeconfig's current context. */
  context?: string | undefined;
  namespace: string;
  /** Label selector: `app=triton,tier in (gpu)`. */
  selector: string;
  /** Pause before a failed call is repeated; default: 1000 ms. */
  retryMs?: number;
}

interface Cluster {
  config: KubeConfig;
  pods: CoreV1Api;
  forward: PortForward;
}

/**
 * The pods of a label selector. Each one, and its agent, is reached through a port-forward on loopback, which is opened when the
 * pod is first listed and kept until the pod is gone or the source is closed. The list is empty if no pod matches. Its methods
 * throw UserError if no usable kubeconfig exists, or if the cluster is unreachable or refuses the call.
 */
export class KubernetesReplicas implements ReplicaSource {
  private opened: Cluster | undefined;
  private readonly forwards = new Map<string, Promise<PodForward>>();
  private mayForward = false;
  /** Whether the cluster has answered before. */
  private reached = false;
  private closed = false;

  constructor(private readonly options: KubernetesReplicaOptions) {}

  describe(): string {
    const context = this.options.context === undefined ? '' : `, context ${this.options.context}`;
    return `pods ${this.options.selector} in namespace ${this.options.namespace}${context}`;
  }

  async list(): Promise<Replica[]> {
    if (this.closed) throw new Error(`${this.describe()}: closed`);
    const pods = (await this.findPods()).filter(isServing).sort((a, b) => (getName(a) < getName(b) ? -1 : 1));
    if (pods[0] !== undefined) await this.checkForward(getName(pods[0]));
    await this.dropGone(pods.map(getUid));
    return Promise.all(pods.map((pod) => this.toReplica(pod)));
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.dropGone([]);
  }

  /** Reads the kubeconfig, without a call to the cluster. */
  private get cluster(): Cluster {
    if (this.opened === undefined) {
      const config = loadKubeconfig(this.options.kubeconfig, this.options.context);
      this.opened = { config, pods: config.makeApiClient(CoreV1Api), forward: new PortForward(config) };
    }
    return this.opened;
  }

  private async findPods(): Promise<V1Pod[]> {
    const { namespace, selector: labelSelector } = this.options;
    const { pods } = this.cluster;
    // A publish lists the pods repeatedly for a long time, so one failed call must not end it.
    for (let attempts = this.reached ? 4 : 1; ; attempts -= 1) {
      try {
        const { items } = await inTime(pods.listNamespacedPod({ namespace, labelSelector }));
        this.reached = true;
        return items;
      } catch (error) {
        const { code } = error as { code?: unknown };
        const isRefusal = typeof code === 'number' && code < 500 && code !== 429;
        if (attempts === 1 || isRefusal) throw this.explain(`list pods ${labelSelector}`, error);
        await sleep(this.options.retryMs ?? RETRY_MS);
      }
    }
  }

  /**
   * Checks once whether we are permitted to forward ports. Without this check a missing permission would show only as a
   * broken connection. The API server checks the permission first, so any other error concerns only that pod and is
   * ignored.
   */
  private async checkForward(pod: string): Promise<void> {
    if (this.mayForward) return;
    try {
      const [output, errors, input] = [new PassThrough(), new PassThrough(), new PassThrough()];
      (await this.openStream(pod, TRITON_PORT, output, errors, input)).terminate();
    } catch (error) {
      // The library reports the status only in the message.
      const status = /Unexpected server response: (401|403)/.exec((error as Error).message)?.[1];
      if (status !== undefined) throw this.explain(`forward a port of pod ${pod}`, { code: Number(status) });
    }
    this.mayForward = true;
  }

  private async dropGone(uids: readonly string[]): Promise<void> {
    for (const [id, forward] of this.forwards) {
      if (uids.some((uid) => id.startsWith(`${uid} `))) continue;
      this.forwards.delete(id);
      await forward.then((open) => open.close()).catch(() => undefined);
    }
  }

  private async toReplica(pod: V1Pod): Promise<Replica> {
    const ports = pod.spec?.containers.flatMap((container) => container.ports ?? []) ?? [];
    const http = ports.find(({ name }) => name === 'http')?.containerPort ?? TRITON_PORT;
    const [agent, triton] = await Promise.all([this.forward(pod, AGENT_PORTS.control), this.forward(pod, http)]);
    const ready = pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
    return { name: getName(pod), uid: getUid(pod), url: agent.url, tritonUrl: triton.url, ready };
  }

  private forward(pod: V1Pod, port: number): Promise<PodForward> {
    const id = `${getUid(pod)} ${port}`;
    let forward = this.forwards.get(id);
    if (forward === undefined) {
      forward = PodForward.listen(`pod ${getName(pod)}`, (...streams) =>
        this.openStream(getName(pod), port, ...streams),
      );
      this.forwards.set(id, forward);
      // The next list tries again.
      forward.catch(() => this.forwards.delete(id));
    }
    return forward;
  }

  /** @throws the library's errors: an Error, or an event with a message if the API server refuses */
  private openStream(pod: string, port: number, output: Writable, errors: Writable, input: Readable) {
    // Without retries portForward returns the WebSocket itself.
    const opening = this.cluster.forward.portForward(this.options.namespace, pod, [port], output, errors, input);
    return inTime(opening as Promise<PodStream>);
  }

  private explain(what: string, error: unknown): Error {
    const { namespace } = this.options;
    const { config } = this.cluster;
    const server = config.getCurrentCluster()?.server ?? '';
    const call = { what: `${what} in namespace ${namespace}`, server, context: config.getCurrentContext(), namespace };
    return explainCluster(call, error);
  }
}

const getName = ({ metadata }: V1Pod): string => metadata?.name ?? '';
const getUid = ({ metadata }: V1Pod): string => metadata?.uid ?? '';

/** Whether the pod counts as a replica: terminating and terminated pods do not. */
const isServing = ({ metadata, status }: V1Pod): boolean =>
  metadata?.deletionTimestamp === undefined && status?.phase !== 'Failed' && status?.phase !== 'Succeeded';

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = Object.assign(new Error(`no answer in ${TIMEOUT_MS / 1000} s`), { name: 'TimeoutError' });
    timer = setTimeout(() => reject(error), TIMEOUT_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
