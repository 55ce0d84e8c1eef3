import { CoreV1Api, NetworkingV1Api } from '@kubernetes/client-node';
import { explainCluster } from '../../../src/cluster/cluster-errors';
import { kubernetesReplicas } from '../../../src/cluster/kubernetes';
import { loadKubeconfig } from '../../../src/cluster/kubeconfig';
import type { Replica } from '../../../src/cluster/source';
import type { StackOutputs } from '../../../src/cluster/stack-outputs';
import { UserError } from '../../../src/core/errors';
import { formatDuration } from '../../../src/core/format';
import { AgentClient } from '../../../src/publish/agent-client';
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
export function openServingCluster({ kubeconfig, namespace, podSelector: selector }: Cluster): ServingCluster {
  const config = loadKubeconfig(kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  const networking = config.makeApiClient(NetworkingV1Api);
  const pods = { kubeconfig, namespace, selector };
  const withMetrics = kubernetesReplicas({ ...pods, port: PORTS.metrics });

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
      const running = new Set((await replicas()).filter((pod) => pod.running).map(({ name }) => name));
      const found = (await withMetrics.list()).filter(({ name }) => running.has(name));
      return new Map(
        await Promise.all(found.map(async (replica) => [replica.name, await readServing(replica)] as const)),
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
    close: () => withMetrics.close(),
  };
}

/** @param replica whose `tritonUrl` is the address of Triton's metrics */
async function readServing(replica: Replica): Promise<Serving> {
  try {
    const gpus = await countGpus(replica.tritonUrl).catch((error: unknown) => {
      const { name, message } = error as Error;
      const why = name === 'TimeoutError' ? `no answer within ${formatDuration(METRICS_TIMEOUT_MS)}` : message;
      throw new Error(`Triton's metrics cannot be read: ${why}`);
    });
    return { gpus, ...(await new AgentClient(replica).getState()) };
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
