import { PassThrough, type Readable, type Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
// This package is slow to load, so this file is imported only when a cluster is used.
import { CoreV1Api, PortForward, type KubeConfig } from '@kubernetes/client-node';
import { explainCluster, type ClusterCall } from './cluster-errors';
import { loadKubeconfig } from './kubeconfig';
import { AGENT_PORTS } from '../release/agent-api';
import { PodForward, type PodStream } from './pod-forward';
import { servingPods, type ServingPod } from './pods';
import type { Replica, ReplicaSource } from './source';

/** Timeout of one call of the cluster's API, including sign-in by a program that the kubeconfig names. */
const TIMEOUT_MS = 30_000;
const RETRY_MS = 1000;

export interface KubernetesReplicaOptions {
  /** Text (YAML or JSON) or path. Default: found as kubectl does. */
  kubeconfig?: string;
  /** Default: the kubeconfig's current context. */
  context?: string;
  namespace: string;
  /** Label selector: `app=triton,tier in (gpu)`. */
  selector: string;
  /** Port of Triton's HTTP API. Default: the container port named "http", else 8000. */
  port?: number;
  /** Port of the agent's control API. Default: that of a pod. */
  agentPort?: number;
  /** Pause before a failed call is repeated; default: 1000 ms. */
  retryMs?: number;
}

/**
 * The pods of a label selector. Each one, and its agent, is reached through a port-forward on loopback, which is opened when the
 * pod is first listed and kept until the pod is gone or the source is closed. The list is empty if no pod matches. Its methods
 * throw UserError if no usable kubeconfig exists, or if the cluster is unreachable or refuses the call.
 */
export function kubernetesReplicas(options: KubernetesReplicaOptions): ReplicaSource {
  return new KubernetesReplicas(options);
}

interface Cluster {
  config: KubeConfig;
  pods: CoreV1Api;
  forward: PortForward;
}

class KubernetesReplicas implements ReplicaSource {
  private cluster: Cluster | undefined;
  /** Port-forwards by the pod's uid and the port. */
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
    this.cluster ??= connect(this.options);
    const { cluster } = this;
    const pods = await this.findPods(cluster);
    await this.checkForward(cluster, pods);
    await this.dropGone(pods);
    return Promise.all(pods.map((pod) => this.replica(cluster, pod)));
  }

  async close(): Promise<void> {
    this.closed = true;
    await this.dropGone([]);
  }

  private async findPods(cluster: Cluster): Promise<ServingPod[]> {
    const { namespace, selector: labelSelector, port } = this.options;
    const call = this.describeCall(cluster, `list pods ${labelSelector} in namespace ${namespace}`);
    // A rollout lists the pods repeatedly for a long time, so one failed call must not end it.
    for (let attempts = this.reached ? 4 : 1; ; attempts -= 1) {
      try {
        const { items } = await inTime(cluster.pods.listNamespacedPod({ namespace, labelSelector }));
        this.reached = true;
        return servingPods(items, port);
      } catch (error) {
        if (attempts === 1 || isRefusal(error)) throw explainCluster(call, error);
        await sleep(this.options.retryMs ?? RETRY_MS);
      }
    }
  }

  /**
   * Checks once whether we are permitted to forward ports. Without this check a missing permission would show only as a
   * broken connection. The API server checks the permission first, so any other error concerns only that pod and is
   * ignored.
   */
  private async checkForward(cluster: Cluster, pods: readonly ServingPod[]): Promise<void> {
    const pod = pods[0];
    if (this.mayForward || pod === undefined) return;
    const { namespace } = this.options;
    const call = this.describeCall(cluster, `forward a port of pod ${pod.name} in namespace ${namespace}`);
    try {
      const stream = await openStream(
        cluster,
        call,
        pod.name,
        pod.port,
        new PassThrough(),
        new PassThrough(),
        new PassThrough(),
      );
      stream.terminate();
    } catch (error) {
      const status = upgradeStatus(error);
      if (status === 401 || status === 403) throw explainCluster(call, { code: status });
    }
    this.mayForward = true;
  }

  private async dropGone(pods: readonly ServingPod[]): Promise<void> {
    for (const [id, forward] of this.forwards) {
      if (pods.some(({ uid }) => id.startsWith(`${uid} `))) continue;
      this.forwards.delete(id);
      await forward.then(
        (open) => open.close(),
        () => undefined,
      );
    }
  }

  private async replica(cluster: Cluster, pod: ServingPod): Promise<Replica> {
    const { name, uid, ready } = pod;
    const [agent, triton] = await Promise.all([
      this.forward(cluster, pod, this.options.agentPort ?? AGENT_PORTS.control),
      this.forward(cluster, pod, pod.port),
    ]);
    return { name, uid, url: agent.url, tritonUrl: triton.url, ready };
  }

  private forward(cluster: Cluster, pod: ServingPod, port: number): Promise<PodForward> {
    const id = `${pod.uid} ${port}`;
    let forward = this.forwards.get(id);
    if (forward === undefined) {
      const call = this.describeCall(cluster, `forward port ${port} of pod ${pod.name}`);
      forward = PodForward.listen(`pod ${pod.name}`, (output, errors, input) =>
        openStream(cluster, call, pod.name, port, output, errors, input),
      );
      this.forwards.set(id, forward);
      // The next list tries again.
      forward.catch(() => this.forwards.delete(id));
    }
    return forward;
  }

  private describeCall({ config }: Cluster, what: string): ClusterCall {
    return {
      what,
      server: config.getCurrentCluster()?.server ?? '',
      context: config.getCurrentContext(),
      namespace: this.options.namespace,
    };
  }
}

/** Reads the kubeconfig, without a call to the cluster. */
function connect(options: KubernetesReplicaOptions): Cluster {
  const config = loadKubeconfig(options.kubeconfig, options.context);
  return { config, pods: config.makeApiClient(CoreV1Api), forward: new PortForward(config) };
}

/** @throws the library's errors: an Error, or an event with a message if the API server refuses */
async function openStream(
  cluster: Cluster,
  call: ClusterCall,
  pod: string,
  port: number,
  output: Writable,
  errors: Writable,
  input: Readable,
): Promise<PodStream> {
  // Without retries portForward returns the WebSocket itself.
  const opening = cluster.forward.portForward(call.namespace, pod, [port], output, errors, input);
  return inTime(opening as Promise<PodStream>, (late) => late.terminate());
}

/** @param onLate receives a result that arrives after the timeout */
async function inTime<T>(work: Promise<T>, onLate?: (value: T) => void): Promise<T> {
  const over = new AbortController();
  let gaveUp = false;
  work.then(
    (value) => {
      if (gaveUp) onLate?.(value);
    },
    () => undefined,
  );
  const timer = sleep(TIMEOUT_MS, undefined, { signal: over.signal }).then(() => {
    gaveUp = true;
    throw Object.assign(new Error(`no answer in ${TIMEOUT_MS / 1000} s`), { name: 'TimeoutError' });
  });
  try {
    return await Promise.race([work, timer]);
  } finally {
    over.abort();
    timer.catch(() => undefined);
  }
}

/** Whether a retry is useless: the API server has answered, and is neither busy nor broken. */
function isRefusal(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'number' && code < 500 && code !== 429;
}

/**
 * The status with which the API server refused to open a WebSocket. The library reports the status only in the message.
 */
function upgradeStatus(error: unknown): number | undefined {
  const found = /Unexpected server response: (\d{3})/.exec((error as Error).message)?.[1];
  return found === undefined ? undefined : Number(found);
}
