import { PassThrough, type Readable, type Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
// Slow to load: whoever imports this file does it when there is a cluster to ask.
import { CoreV1Api, PortForward, type KubeConfig } from '@kubernetes/client-node';
import { explainCluster, type ClusterCall } from './cluster-errors';
import { loadKubeconfig } from './kubeconfig';
import { PodForward, type PodStream } from './pod-forward';
import { servingPods, type ServingPod } from './pods';
import type { Replica, ReplicaSource } from './source';

/** For one call of the cluster's API, sign-in by a program of the kubeconfig included. */
const TIMEOUT_MS = 30_000;
const RETRY_MS = 1000;

export interface KubernetesReplicaOptions {
  /** Text (YAML or JSON) or path; as kubectl finds it when left out. */
  kubeconfig?: string;
  /** The kubeconfig's current one when left out. */
  context?: string;
  namespace: string;
  /** Label selector: `app=triton,tier in (gpu)`. */
  selector: string;
  /** Of Triton's HTTP API; when left out the container port named "http", else 8000. */
  port?: number;
}

/**
 * The pods of a label selector, each reached through a port-forward on loopback, which is opened when the pod is first
 * seen and kept until the pod is gone or the source is closed. No pod at all is an empty list.
 * Its methods throw UserError when there is no usable kubeconfig, or the cluster cannot be reached or refuses.
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
  /** By the pod's uid. */
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
    // A rollout asks again and again for a long time: one answer that fails is not to end it.
    for (let attempts = this.reached ? 4 : 1; ; attempts -= 1) {
      try {
        const { items } = await inTime(cluster.pods.listNamespacedPod({ namespace, labelSelector }));
        this.reached = true;
        return servingPods(items, port);
      } catch (error) {
        if (attempts === 1 || isRefusal(error)) throw explainCluster(call, error);
        await sleep(RETRY_MS);
      }
    }
  }

  /**
   * Asks once for what only shows when a connection is made, so that it is told in words and not as a broken
   * connection: whether we may forward ports. That is decided first; what fails later is a matter of that pod.
   */
  private async checkForward(cluster: Cluster, pods: readonly ServingPod[]): Promise<void> {
    const pod = pods[0];
    if (this.mayForward || pod === undefined) return;
    const { namespace } = this.options;
    const call = this.describeCall(cluster, `forward a port of pod ${pod.name} in namespace ${namespace}`);
    try {
      const stream = await openStream(cluster, call, pod, new PassThrough(), new PassThrough(), new PassThrough());
      stream.terminate();
    } catch (error) {
      const status = upgradeStatus(error);
      if (status === 401 || status === 403) throw explainCluster(call, { code: status });
    }
    this.mayForward = true;
  }

  private async dropGone(pods: readonly ServingPod[]): Promise<void> {
    for (const [uid, forward] of this.forwards) {
      if (pods.some((pod) => pod.uid === uid)) continue;
      this.forwards.delete(uid);
      await (await forward).close();
    }
  }

  private async replica(cluster: Cluster, pod: ServingPod): Promise<Replica> {
    let forward = this.forwards.get(pod.uid);
    if (forward === undefined) {
      const call = this.describeCall(cluster, `forward port ${pod.port} of pod ${pod.name}`);
      forward = PodForward.listen(`pod ${pod.name}`, (output, errors, input) =>
        openStream(cluster, call, pod, output, errors, input),
      );
      this.forwards.set(pod.uid, forward);
    }
    const { name, uid, ready, started } = pod;
    return { name, uid, url: (await forward).url, ready, started, restart: this.deleteCommand(name) };
  }

  /** The Deployment makes another pod in its place. */
  private deleteCommand(pod: string): string {
    const { context, namespace } = this.options;
    return `kubectl${context === undefined ? '' : ` --context ${context}`} --namespace ${namespace} delete pod ${pod}`;
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

/** Reads the kubeconfig; the cluster is not asked yet. */
function connect(options: KubernetesReplicaOptions): Cluster {
  const config = loadKubeconfig(options.kubeconfig, options.context);
  return { config, pods: config.makeApiClient(CoreV1Api), forward: new PortForward(config) };
}

/** @throws whatever the library throws: an Error, or an event with a message when the API server refuses */
async function openStream(
  cluster: Cluster,
  call: ClusterCall,
  pod: ServingPod,
  output: Writable,
  errors: Writable,
  input: Readable,
): Promise<PodStream> {
  // Without retries it gives the WebSocket itself.
  const opening = cluster.forward.portForward(call.namespace, pod.name, [pod.port], output, errors, input);
  return inTime(opening as Promise<PodStream>, (late) => late.terminate());
}

/** @param onLate gets what came after we had given up */
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

/** Whether asking again is of no use: the API server has answered, and not that it is busy or broken. */
function isRefusal(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'number' && code < 500 && code !== 429;
}

/** The status with which the API server refused to open a WebSocket; the library has it in the text only. */
function upgradeStatus(error: unknown): number | undefined {
  const found = /Unexpected server response: (\d{3})/.exec((error as Error).message)?.[1];
  return found === undefined ? undefined : Number(found);
}
