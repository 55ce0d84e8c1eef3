import { CoreV1Api, NetworkingV1Api, type V1Node, type V1Pod } from '@kubernetes/client-node';
import { explainCluster } from '../../../src/cluster/cluster-errors';
import { kubernetesReplicas, type KubernetesReplicaOptions } from '../../../src/cluster/kubernetes';
import { loadKubeconfig } from '../../../src/cluster/kubeconfig';
import { guardedReplicas, replicaClient, type Replica } from '../../../src/cluster/source';
import type { StackOutputs } from '../../../src/cluster/stack-outputs';
import { readDevices } from '../../../src/agent/devices';
import { UserError } from '../../../src/core/errors';
import { formatDuration } from '../../../src/core/format';
import { AgentClient } from '../../../src/publish/trial/agent-client';
import { AGENT_CONTAINER, AGENT_PORTS } from '../../../src/release/agent-api';
import { once } from '../../aws-session';
import { GPU_LABEL, GPU_POOL_LABEL } from '../../gpu/gpu-labels';
import { PORTS, TRITON_CONTAINER } from '../../triton/names';
import { parsePull, parseStorageGiB } from './parse';
import type { GpuNode, ReplicaPod, Serving, ServingCluster } from './serving-cluster';

const GPU_RESOURCE = 'nvidia.com/gpu';
/** Written by https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery (2026-11-26). */
const DRIVER_LABEL = 'nvidia.com/cuda.driver-version.full';
/** Enough for the banner of the image and the first lines of Triton. */
const LOG_BYTES = 32 * 1024;
const METRICS_TIMEOUT_MS = 10_000;

type Cluster = NonNullable<StackOutputs['cluster']>;

/**
 * Opens the cluster of a deployed stack. Sends only requests that read, and forwards ports of the pods.
 * @throws UserError if the kubeconfig is not usable
 */
export function openServingCluster(
  { kubeconfig, namespace, podSelector: selector }: Cluster,
  modelControlKey: string | undefined,
): ServingCluster {
  const config = loadKubeconfig(kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  const networking = config.makeApiClient(NetworkingV1Api);
  const pods = { kubeconfig, namespace, selector };
  const agent = { container: AGENT_CONTAINER, port: AGENT_PORTS.control };
  const [triton, metrics] = [{ agent }, { port: PORTS.metrics }].map((more: Partial<KubernetesReplicaOptions>) =>
    kubernetesReplicas({ ...pods, ...more }),
  ) as [ReturnType<typeof kubernetesReplicas>, ReturnType<typeof kubernetesReplicas>];
  const guarded = modelControlKey === undefined ? triton : guardedReplicas(triton, modelControlKey);

  const ask = async <T>(what: string, send: () => Promise<T>): Promise<T> => {
    try {
      return await send();
    } catch (error) {
      const server = config.getCurrentCluster()?.server ?? '';
      const found = explainCluster({ what, server, context: config.getCurrentContext(), namespace }, error);
      if ((error as { code?: unknown }).code !== 403) throw found;
      throw new UserError(found.message, {
        hint: 'sign in with a role of clusterAdmins, which may list nodes, events and load balancers, and read logs',
      });
    }
  };

  return {
    namespace,
    nodes: once(() =>
      ask('list nodes', async () =>
        (await core.listNode({ labelSelector: `${GPU_LABEL}=true` })).items.map(describeNode),
      ),
    ),
    replicas: once(() =>
      ask(`list pods in namespace ${namespace}`, async () => {
        const { items } = await core.listNamespacedPod({ namespace, labelSelector: selector });
        return items.filter(isLive).map(describePod);
      }),
    ),
    pulls: () =>
      ask(`list events in namespace ${namespace}`, async () => {
        const fieldSelector = 'reason=Pulled,involvedObject.kind=Pod';
        const { items } = await core.listNamespacedEvent({ namespace, fieldSelector });
        return items.flatMap(({ involvedObject: { name = '', fieldPath }, message = '' }) => {
          const seconds = fieldPath === `spec.containers{${TRITON_CONTAINER}}` ? parsePull(message) : undefined;
          return seconds === undefined ? [] : [{ pod: name, seconds }];
        });
      }),
    log: once((name: string) =>
      ask(`read the log of pod ${name}`, () =>
        core.readNamespacedPodLog({ namespace, name, container: TRITON_CONTAINER, limitBytes: LOG_BYTES }),
      ),
    ),
    serving: async () => {
      const addresses = new Map((await metrics.list()).map(({ name, url }) => [name, url]));
      const running = (await guarded.list()).filter(({ started, ready }) => started === true || ready);
      return new Map(
        await Promise.all(
          running.map(async (replica) => [replica.name, await readServing(replica, addresses)] as const),
        ),
      );
    },
    loadBalancers: () =>
      ask(`list services and ingresses in namespace ${namespace}`, async () => {
        const services = (await core.listNamespacedService({ namespace })).items;
        const ingresses = (await networking.listNamespacedIngress({ namespace })).items;
        return [...services.filter(({ spec }) => spec?.type === 'LoadBalancer'), ...ingresses].flatMap(({ status }) =>
          (status?.loadBalancer?.ingress ?? []).flatMap(({ hostname }) => hostname ?? []),
        );
      }),
    close: async () => {
      await Promise.all([triton.close(), metrics.close()]);
    },
  };
}

/** @param metrics addresses of Triton's metrics, by pod */
async function readServing(replica: Replica, metrics: ReadonlyMap<string, string>): Promise<Serving> {
  try {
    const gpus = await countGpus(metrics.get(replica.name) ?? '').catch((error: unknown) => {
      const { name, message } = error as Error;
      const why = name === 'TimeoutError' ? `no answer within ${formatDuration(METRICS_TIMEOUT_MS)}` : message;
      throw new Error(`Triton's metrics cannot be read: ${why}`);
    });
    return { gpus, ...(await readModels(replica)) };
  } catch (error) {
    return { gpus: undefined, models: [], problem: (error as Error).message };
  }
}

async function countGpus(url: string): Promise<number> {
  const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(METRICS_TIMEOUT_MS) });
  const text = await response.text();
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${text.trim()}`);
  return [...text.matchAll(/^nv_gpu_memory_total_bytes\{/gm)].length;
}

async function readModels(replica: Replica): Promise<Pick<Serving, 'models' | 'problem'>> {
  const { name, uid = name, agentUrl } = replica;
  if (agentUrl !== undefined) return new AgentClient({ name, uid, url: agentUrl }).getState();
  const client = replicaClient(replica);
  try {
    const index = await client.repositoryIndex();
    const ready = index.filter(({ state }) => state === 'READY').map((entry) => [entry.name, entry] as const);
    const models = Object.fromEntries(ready);
    const devices = await readDevices({ models }, client);
    const served = Object.keys(models).sort();
    return { models: served.map((model) => ({ name: model, device: devices[model] ?? null })), problem: null };
  } finally {
    client.close();
  }
}

/** Neither ending, nor ended like an evicted pod, which Kubernetes keeps for a while. */
const isLive = ({ metadata, status }: V1Pod): boolean =>
  metadata?.deletionTimestamp === undefined && !['Failed', 'Succeeded'].includes(status?.phase ?? '');

function describeNode({ metadata, status }: V1Node): GpuNode {
  const labels = metadata?.labels ?? {};
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    name: metadata?.name ?? '',
    pool: labels[GPU_POOL_LABEL],
    instanceType: labels['node.kubernetes.io/instance-type'],
    ready: ready?.status === 'True',
    reason: ready?.message,
    gpus: Number(status?.allocatable?.[GPU_RESOURCE] ?? 0),
    storageGiB: parseStorageGiB(status?.capacity?.['ephemeral-storage'] ?? '0'),
    driver: labels[DRIVER_LABEL],
  };
}

function describePod({ metadata, spec, status }: V1Pod): ReplicaPod {
  const container = status?.containerStatuses?.find(({ name }) => name === TRITON_CONTAINER);
  const state = container?.state;
  const unscheduled = status?.conditions?.find(
    ({ type, status: value }) => type === 'PodScheduled' && value === 'False',
  );
  return {
    name: metadata?.name ?? '',
    node: spec?.nodeName,
    ready: status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true,
    running: state?.running !== undefined,
    reason: unscheduled?.message ?? state?.waiting?.reason ?? state?.terminated?.reason,
    image: spec?.containers.find(({ name }) => name === TRITON_CONTAINER)?.image ?? '',
  };
}
