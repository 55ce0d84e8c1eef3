import { CoreV1Api, NetworkingV1Api } from '@kubernetes/client-node';
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
import { GPU_LABEL } from '../../gpu/gpu-labels';
import { PORTS, TRITON_CONTAINER } from '../../triton/names';
import { describeAddresses, describeNodes, describePods, describePulls } from './describe';
import type { Serving, ServingCluster } from './serving-cluster';

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

  const replicas = once(() =>
    ask(`list pods in namespace ${namespace}`, async () =>
      describePods((await core.listNamespacedPod({ namespace, labelSelector: selector })).items),
    ),
  );

  return {
    namespace,
    nodes: once(() =>
      ask('list nodes', async () => describeNodes((await core.listNode({ labelSelector: `${GPU_LABEL}=true` })).items)),
    ),
    replicas,
    pulls: async () => {
      const pods = await replicas();
      return ask(`list events in namespace ${namespace}`, async () => {
        const fieldSelector = 'reason=Pulled,involvedObject.kind=Pod';
        return describePulls((await core.listNamespacedEvent({ namespace, fieldSelector })).items, pods);
      });
    },
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
        // All objects of TritonServer have the labels that select its pods.
        const own = { namespace, labelSelector: selector };
        const services = (await core.listNamespacedService(own)).items;
        const ingresses = (await networking.listNamespacedIngress(own)).items;
        return describeAddresses([...services.filter(({ spec }) => spec?.type === 'LoadBalancer'), ...ingresses]);
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
