import { DRIVER_FIX, getCudaNeed } from '../../gpu/cuda';
import { findFacts, getNvmeGiB } from '../../gpu/gpu-instance-types';
import { usesInstanceStore } from '../../gpu/node-storage';
import type { Settings } from '../../settings';
import type { GpuNodePoolSettings } from '../../settings/types';
import { error, ok, warning, type Finding } from '../check';
import { getLeastReplicas, type AfterUpCheck } from './check';
import { parseDriver } from './parse';
import type { GpuNode, ServingCluster } from './serving-cluster';

interface PoolNode {
  node: GpuNode;
  pool: GpuNodePoolSettings;
}

/** The nodes of the pools in the stack file. Other stacks and removed pools have the same label. */
async function listNodes(
  cluster: Pick<ServingCluster, 'nodes'>,
  { gpuNodePools }: Pick<Settings, 'gpuNodePools'>,
): Promise<PoolNode[]> {
  return (await cluster.nodes()).flatMap((node) => {
    const pool = gpuNodePools.find(({ name }) => name === node.pool);
    return pool === undefined ? [] : [{ node, pool }];
  });
}

/** Time in which a node that joined becomes Ready, and its device plugin registers. */
const JOIN_MS = 10 * 60_000;

/** Whether the nodes of the GPU pools are ready and have GPUs. */
export const nodesCheck: AfterUpCheck = {
  name: 'GPU nodes',
  required: true,
  run: async ({ cluster, settings, today }) => judgeNodes(await listNodes(cluster, settings), settings, today),
};

/** @param nodes of the pools of the stack */
function judgeNodes(
  nodes: readonly PoolNode[],
  { gpuNodePools, triton }: Pick<Settings, 'gpuNodePools' | 'triton'>,
  now: Date,
): Finding[] {
  if (gpuNodePools.length === 0 || triton.gpusPerPod === 0)
    return [ok('none needed: gpuNodePools is empty, or gpusPerPod is 0')];
  if (nodes.length === 0) {
    if (getLeastReplicas(triton) === 0) return [ok('no node is needed for 0 replicas')];
    return [
      error(
        `there is no node of ${gpuNodePools.map(({ name }) => name).join(', ')}`,
        'kubectl describe nodepools,nodeclaims: quota, capacity or a NodePool that is not ready; for a managed-node-group, minimumNodes',
      ),
    ];
  }
  return nodes.map(({ node, pool }) => {
    const { name, instanceType = 'of unknown type', gpus, ready, reason, createdAt } = node;
    const described = `${name} (${instanceType})`;
    if (ready && gpus > 0) {
      const slices = pool.timeSlices > 1 ? ' or slices' : '';
      return ok(`${described} is Ready, with ${gpus} GPU${gpus === 1 ? '' : 's'}${slices}`);
    }
    const found = ready
      ? `${described} is Ready, but has no GPU that pods can request`
      : `${described} is not Ready: ${reason ?? 'no reason'}`;
    if (createdAt !== undefined && now.getTime() - createdAt.getTime() < JOIN_MS)
      return warning(`${found}; it is younger than 10 minutes`, 'run the doctor again in some minutes');
    const describeNode = `kubectl describe node ${name}`;
    return error(
      found,
      ready ? `the driver or the device plugin of the node does not run: ${describeNode}` : describeNode,
    );
  });
}

/** Share of a disk that a file system leaves at least. */
const USABLE = 0.9;
/** Data sheets round the size of disks. */
const ROUNDING = 1.02;

/** Whether images and pods are on the local NVMe storage of the nodes, as node-storage.ts predicts. */
export const storageCheck: AfterUpCheck = {
  name: 'local storage',
  run: async ({ cluster, settings }) => {
    const nodes = await listNodes(cluster, settings);
    if (nodes.length === 0) return [ok('not checked: there are no nodes')];
    return nodes.map(({ node, pool }) => judgeStorage(node, pool));
  },
};

export function judgeStorage(
  { name, instanceType, storageGiB }: Pick<GpuNode, 'name' | 'instanceType' | 'storageGiB'>,
  pool: GpuNodePoolSettings,
): Finding {
  const found = `${name} has ${Math.round(storageGiB)} GiB for images and pods`;
  if (instanceType === undefined || findFacts(pool, instanceType) === undefined)
    return ok(`${found}; its type is not in the list of this package`);
  const nvmeGiB = getNvmeGiB(pool, instanceType);
  const isLocal = usesInstanceStore(pool, instanceType);
  const mayBe = (diskGiB: number): boolean => storageGiB >= USABLE * diskGiB && storageGiB <= ROUNDING * diskGiB;
  // The node class of another Karpenter sets the size of its EBS volumes.
  if (isLocal !== undefined && mayBe(nvmeGiB) && mayBe(pool.diskGiB)) {
    return ok(
      `${found}; cannot tell whether that is local NVMe storage (${nvmeGiB} GiB) or EBS (diskGiB: ${pool.diskGiB}), because the sizes are alike`,
    );
  }
  const isEnough = isLocal === undefined || storageGiB >= USABLE * pool.diskGiB;
  if (mayBe(nvmeGiB) && isEnough) return ok(`${found}, which is its local NVMe storage (${nvmeGiB} GiB)`);
  const missed = `${found}, but ${instanceType} has ${nvmeGiB} GiB of local NVMe storage`;
  switch (isLocal) {
    case true:
      return warning(
        `${missed}, which this version should use`,
        pool.mechanism === 'auto-mode'
          ? `Auto Mode did not follow the rule in infra/gpu/node-storage.ts: open an issue with "kubectl get node ${name} --output yaml"`
          : 'the node has older user data, or its setup failed: terminate its instance, and compare its console output',
      );
    case false:
      if (!isEnough) {
        return warning(
          `${found}, less than diskGiB (${pool.diskGiB})`,
          pool.mechanism === 'auto-mode' ? `kubectl delete node ${name}` : `terminate the instance of ${name}`,
        );
      }
      return ok(
        `${found}, on EBS, because diskGiB (${pool.diskGiB}) is at least as large as the smallest local NVMe storage in the pool`,
      );
    default:
      return warning(missed, `set instanceStorePolicy: RAID0 in the node class ${pool.nodeClass?.name ?? ''}`);
  }
}

/** Whether the driver of each node is new enough for the CUDA of the image. */
export const driverCheck: AfterUpCheck = {
  name: 'GPU driver',
  run: async ({ cluster, settings }) => {
    if (settings.triton.gpusPerPod === 0) return [ok('none needed: gpusPerPod is 0')];
    const [nodes, pods] = await Promise.all([listNodes(cluster, settings), cluster.replicas()]);
    if (nodes.length === 0) return [ok('not checked: there are no nodes')];
    return Promise.all(
      nodes.map(async ({ node }) => {
        const pod = pods.find(({ node: name, running }) => name === node.name && running);
        return judgeDriver(node, pod && { image: pod.image, log: await cluster.log(pod.name) });
      }),
    );
  },
};

/** @param pod a running pod of Triton on the node */
export function judgeDriver(
  { name, driver }: Pick<GpuNode, 'name' | 'driver'>,
  pod: { image: string; log: string } | undefined,
): Finding {
  const report = parseDriver(pod?.log ?? '');
  switch (report.kind) {
    case 'missing':
      return error(`${name}: the container finds no NVIDIA driver`, DRIVER_FIX);
    case 'insufficient':
      return error(`${name}: the driver is too old for the CUDA of the image`, DRIVER_FIX);
    case 'too old':
      return error(
        `${name}: driver ${report.driver || '(unknown)'} is too old for the image, which needs ${report.needed}`,
        DRIVER_FIX,
      );
    case 'compatible':
      return ok(`${name}: driver ${report.driver}, with the forward compatibility of CUDA ${report.cuda} in the image`);
    case 'ok':
    case 'unknown':
      break;
    default:
      report satisfies never;
  }
  const need = report.kind === 'unknown' && pod !== undefined ? getCudaNeed(pod.image) : undefined;
  if (driver !== undefined && need !== undefined && parseInt(driver, 10) < need.driver) {
    return warning(
      `${name}: driver ${driver} is older than ${need.driver}, which CUDA ${need.cuda} of the image needs without forward compatibility`,
      `if Triton sees no GPU: ${DRIVER_FIX}`,
    );
  }
  if (driver !== undefined) return ok(`${name}: driver ${driver}`);
  if (pod === undefined) return ok(`${name}: not checked, because no replica runs on it`);
  return ok(
    report.kind === 'ok'
      ? `${name}: the image reports no problem with the driver`
      : `${name}: not known: the log of the replica no longer contains its start`,
  );
}
