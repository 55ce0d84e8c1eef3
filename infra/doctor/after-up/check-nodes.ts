import { getNvmeGiB, GPU_INSTANCE_TYPE_NAMES, type GpuInstanceType } from '../../gpu/gpu-instance-types';
import { usesInstanceStore } from '../../gpu/node-storage';
import type { Settings } from '../../settings';
import type { GpuNodePoolSettings } from '../../settings/types';
import { error, ok, warning, type Finding } from '../check';
import type { AfterUpCheck } from './check';
import { parseDriver } from './parse';
import type { GpuNode } from './serving-cluster';

/** Whether the nodes of the GPU pools are ready and have GPUs. */
export const nodesCheck: AfterUpCheck = {
  name: 'GPU nodes',
  required: true,
  run: async ({ cluster, settings }) => judgeNodes(await cluster.nodes(), settings),
};

/** @param nodes of all GPU pools */
export function judgeNodes(
  nodes: readonly GpuNode[],
  { gpuNodePools, triton }: Pick<Settings, 'gpuNodePools' | 'triton'>,
): Finding[] {
  if (gpuNodePools.length === 0 || triton.gpusPerPod === 0)
    return [ok('none needed: gpuNodePools is empty, or gpusPerPod is 0')];
  if (nodes.length === 0) {
    return [
      error(
        `there is no node of ${gpuNodePools.map(({ name }) => name).join(', ')}`,
        'kubectl describe nodepools,nodeclaims: quota, capacity or a NodePool that is not ready; for a managed-node-group, minimumNodes',
      ),
    ];
  }
  return nodes.map((node) => {
    const { name, instanceType = 'of unknown type', gpus, ready, reason } = node;
    if (!ready)
      return error(`${name} (${instanceType}) is not Ready: ${reason ?? 'no reason'}`, `kubectl describe node ${name}`);
    if (gpus === 0) {
      return error(
        `${name} (${instanceType}) is Ready, but has no GPU that pods can request`,
        `the driver or the device plugin of the node does not run: kubectl describe node ${name}`,
      );
    }
    return ok(`${name} (${instanceType}) is Ready, with ${gpus} GPU${gpus === 1 ? '' : 's'}`);
  });
}

/** Share of a disk that a file system leaves at least. */
const USABLE = 0.9;

/** Whether images and pods are on the local NVMe storage of the nodes, as node-storage.ts predicts. */
export const storageCheck: AfterUpCheck = {
  name: 'local storage',
  run: async ({ cluster, settings }) => {
    const nodes = await cluster.nodes();
    if (nodes.length === 0) return [ok('not checked: there are no nodes')];
    return nodes.map((node) =>
      judgeStorage(
        node,
        settings.gpuNodePools.find(({ name }) => name === node.pool),
      ),
    );
  },
};

const isKnown = (type: string | undefined): type is GpuInstanceType =>
  (GPU_INSTANCE_TYPE_NAMES as readonly (string | undefined)[]).includes(type);

/** @param pool of the node; undefined if the stack file has no such pool */
export function judgeStorage(
  { name, instanceType, storageGiB }: Pick<GpuNode, 'name' | 'instanceType' | 'storageGiB'>,
  pool: GpuNodePoolSettings | undefined,
): Finding {
  const found = `${name} has ${Math.round(storageGiB)} GiB for images and pods`;
  if (pool === undefined || !isKnown(instanceType)) return ok(`${found}; its pool or type is not in the stack file`);
  const nvmeGiB = getNvmeGiB(instanceType);
  const isLocal = usesInstanceStore(pool, instanceType);
  if (isLocal !== false && storageGiB >= USABLE * nvmeGiB)
    return ok(`${found}, which is its local NVMe storage (${nvmeGiB} GiB)`);
  const missed = `${found}, but ${instanceType} has ${nvmeGiB} GiB of local NVMe storage`;
  switch (isLocal) {
    case true:
      return warning(
        `${missed}, which this version should use`,
        pool.mechanism === 'auto-mode'
          ? 'Auto Mode did not follow the rule in infra/gpu/node-storage.ts: open an issue with "kubectl get node NAME --output yaml"'
          : `the node has older user data, or its setup failed: terminate its instance, and compare its console output`,
      );
    case false:
      return storageGiB < USABLE * pool.diskGiB
        ? warning(`${found}, less than diskGiB (${pool.diskGiB})`, `replace the node: kubectl drain ${name}`)
        : ok(
            `${found}, on EBS, because diskGiB (${pool.diskGiB}) is not below the local NVMe storage (${nvmeGiB} GiB)`,
          );
    default:
      return warning(missed, `set instanceStorePolicy: RAID0 in the node class ${pool.nodeClass?.name ?? ''}`);
  }
}

/**
 * Lowest major version of the driver for images with CUDA 13, which those of 2026 have:
 * https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html and
 * https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-26-09.html (2026-11-26)
 */
const MINIMUM_DRIVER = 580;
const HAS_CUDA_13 = /:26\.\d\d-/;

/** Whether the driver of each node is new enough for the CUDA of the image. */
export const driverCheck: AfterUpCheck = {
  name: 'GPU driver',
  run: async ({ cluster, settings }) => {
    if (settings.triton.gpusPerPod === 0) return [ok('none needed: gpusPerPod is 0')];
    const [nodes, pods] = await Promise.all([cluster.nodes(), cluster.replicas()]);
    if (nodes.length === 0) return [ok('not checked: there are no nodes')];
    return Promise.all(
      nodes.map(async (node) => {
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
  const fix =
    'update the nodes to a newer image, or return to the former TRITON_RELEASE (docs/operations.md#tritongpumissing)';
  const report = parseDriver(pod?.log ?? '');
  switch (report.kind) {
    case 'missing':
      return error(`${name}: the container finds no NVIDIA driver`, fix);
    case 'insufficient':
      return error(`${name}: the driver is too old for the CUDA of the image`, fix);
    case 'too old':
      return error(
        `${name}: driver ${report.driver || '(unknown)'} is too old for the image, which needs ${report.needed}`,
        fix,
      );
    case 'compatible':
      return ok(`${name}: driver ${report.driver}, with the forward compatibility of CUDA ${report.cuda} in the image`);
    case 'ok':
    case 'unknown':
      break;
    default:
      report satisfies never;
  }
  if (
    driver !== undefined &&
    pod !== undefined &&
    HAS_CUDA_13.test(pod.image) &&
    parseInt(driver, 10) < MINIMUM_DRIVER
  ) {
    return error(`${name}: driver ${driver} is too old for CUDA 13 of the image, which needs ${MINIMUM_DRIVER}`, fix);
  }
  if (driver !== undefined) return ok(`${name}: driver ${driver}`);
  if (pod === undefined) return ok(`${name}: not checked, because no replica runs on it`);
  return ok(
    report.kind === 'ok'
      ? `${name}: the image reports no problem with the driver`
      : `${name}: not known: the log of the replica no longer contains its start`,
  );
}
