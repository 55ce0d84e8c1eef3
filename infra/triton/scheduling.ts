import type { input } from '@pulumi/kubernetes/types';
import { GPU_TAINT } from '../gpu/gpu-labels';
import { selectorLabels } from './names';
import type { ServerSettings } from './settings';
import { TEMPORARY_GIB } from './server-container';

type PodSpec = input.core.v1.PodSpec;
type ResourceRequirements = input.core.v1.ResourceRequirements;

/** Tolerates the taint of all GPU nodes with any value, including nodes that this package did not create. */
const GPU_TOLERATION = { key: GPU_TAINT.key, operator: 'Exists', effect: GPU_TAINT.effect };

export function scheduling(
  settings: ServerSettings,
): Pick<PodSpec, 'nodeSelector' | 'tolerations' | 'affinity' | 'topologySpreadConstraints'> {
  const { name, pod, gpusPerPod } = settings;
  const tolerations = pod.tolerations.map((one) => ({
    operator: one.value === undefined ? 'Exists' : 'Equal',
    ...one,
  }));
  const ofThisServer = { matchLabels: selectorLabels(name) };
  return {
    nodeSelector: Object.keys(pod.nodeSelector).length === 0 ? undefined : pod.nodeSelector,
    tolerations: [...(gpusPerPod === 0 ? [] : [GPU_TOLERATION]), ...tolerations],
    // Karpenter takes a preference for a requirement (https://karpenter.sh/docs/concepts/scheduling/#preferences, 2026-11-28)
    // and would start a node for each pod, also where one node has GPUs for several. Zones still spread those pods.
    affinity: settings.sharedNodes
      ? undefined
      : {
          podAntiAffinity: {
            // Preferred, not required: two pods on the only node are better than one pod.
            preferredDuringSchedulingIgnoredDuringExecution: [
              { weight: 100, podAffinityTerm: { topologyKey: 'kubernetes.io/hostname', labelSelector: ofThisServer } },
            ],
          },
        },
    topologySpreadConstraints: [
      {
        topologyKey: 'topology.kubernetes.io/zone',
        maxSkew: 1,
        // GPUs are often available in one zone only, and an uneven spread is better than a pending pod.
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: ofThisServer,
        // Ignores the old pods of an update, which are about to be deleted.
        matchLabelKeys: ['pod-template-hash'],
      },
    ],
  };
}

/**
 * Resources of one pod. For GPUs, memory and disk the request is the limit: GPUs cannot be shared, and exceeding memory
 * or disk harms other pods.
 */
export function resourceRequirements({ resources, gpusPerPod }: ServerSettings): ResourceRequirements {
  const whole: Record<string, string> = {
    memory: `${resources.memoryGiB}Gi`,
    'ephemeral-storage': `${resources.scratchGiB + TEMPORARY_GIB}Gi`,
    ...(gpusPerPod === 0 ? {} : { 'nvidia.com/gpu': String(gpusPerPod) }),
  };
  return {
    requests: { cpu: String(resources.cpu), ...whole },
    limits: { cpu: String(2 * resources.cpu), ...whole },
  };
}
