import type { CoreV1Event, V1ContainerState, V1Ingress, V1Node, V1Pod, V1Service } from '@kubernetes/client-node';
import { GPU_POOL_LABEL } from '../../gpu/gpu-labels';
import { TRITON_CONTAINER } from '../../triton/names';
import { parsePull, parseStorageGiB } from './parse';
import type { GpuNode, ImagePull, ReplicaPod } from './serving-cluster';

const GPU_RESOURCE = 'nvidia.com/gpu';
/** Written by https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery (2026-11-26). */
const DRIVER_LABEL = 'nvidia.com/cuda.driver-version.full';

const isKept = ({ metadata }: V1Node | V1Pod): boolean => metadata?.deletionTimestamp === undefined;

/** Leaves out the nodes that are being deleted, which Karpenter drains first. */
export const describeNodes = (nodes: readonly V1Node[]): GpuNode[] => nodes.filter(isKept).map(describeNode);

function describeNode({ metadata, status }: V1Node): GpuNode {
  const labels = metadata?.labels ?? {};
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    name: metadata?.name ?? '',
    pool: labels[GPU_POOL_LABEL],
    instanceType: labels['node.kubernetes.io/instance-type'],
    createdAt: metadata?.creationTimestamp,
    ready: ready?.status === 'True',
    reason: ready?.message,
    gpus: Number(status?.allocatable?.[GPU_RESOURCE] ?? 0),
    storageGiB: parseStorageGiB(status?.capacity?.['ephemeral-storage'] ?? '0'),
    driver: labels[DRIVER_LABEL],
  };
}

/** Leaves out pods that are being deleted, and pods that ended, such as evicted ones, which Kubernetes keeps for a while. */
export const describePods = (pods: readonly V1Pod[]): ReplicaPod[] =>
  pods.filter((pod) => isKept(pod) && !['Failed', 'Succeeded'].includes(pod.status?.phase ?? '')).map(describePod);

function describePod({ metadata, spec, status }: V1Pod): ReplicaPod {
  const container = status?.containerStatuses?.find(({ name }) => name === TRITON_CONTAINER);
  const unscheduled = status?.conditions?.find(
    ({ type, status: value }) => type === 'PodScheduled' && value === 'False',
  );
  // Triton's container waits until the agent has started.
  const ofAgent = status?.initContainerStatuses?.flatMap(({ name, state }) => {
    const reason = state?.terminated?.exitCode === 0 ? undefined : getReason(state);
    return reason === undefined ? [] : `${name}: ${reason}`;
  });
  return {
    name: metadata?.name ?? '',
    node: spec?.nodeName,
    ready: status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true,
    running: container?.state?.running !== undefined,
    reason: unscheduled?.message ?? ofAgent?.[0] ?? getReason(container?.state),
    image: spec?.containers.find(({ name }) => name === TRITON_CONTAINER)?.image ?? '',
  };
}

const getReason = (state: V1ContainerState | undefined): string | undefined =>
  state?.waiting?.reason ?? state?.terminated?.reason;

/** The longest pull for each of the pods: a later start of a container finds the image on the node. */
export function describePulls(events: readonly CoreV1Event[], pods: readonly Pick<ReplicaPod, 'name'>[]): ImagePull[] {
  return pods.flatMap(({ name: pod }) => {
    const seconds = events.flatMap(({ involvedObject: { name, fieldPath }, message = '' }) =>
      name === pod && fieldPath === `spec.containers{${TRITON_CONTAINER}}` ? (parsePull(message) ?? []) : [],
    );
    return seconds.length === 0 ? [] : [{ pod, seconds: Math.max(...seconds) }];
  });
}

/** Host names, or IP addresses where a load balancer has no name. */
export const describeAddresses = (objects: readonly Pick<V1Service | V1Ingress, 'status'>[]): string[] =>
  objects.flatMap(({ status }) =>
    (status?.loadBalancer?.ingress ?? []).flatMap(({ hostname, ip }) => hostname ?? ip ?? []),
  );
