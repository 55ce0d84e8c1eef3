import type { input } from '@pulumi/kubernetes/types';
import { GPU_TAINT } from '../gpu/gpu-labels';
import { selectorLabels } from './names';
import type { TritonSettings } from './settings';
import { TEMPORARY_GIB } from './environment';

type PodSpec = input.core.v1.PodSpec;
type ResourceRequirements = input.core.v1.ResourceRequirements;

/** Accepts the taint of GPU nodes, also of those that somebody else made, whatever its value. */
const GPU_TOLERATION = { key: GPU_TAINT.key, operator: 'Exists', effect: GPU_TAINT.effect };

/** On which nodes pods may run, and how they are spread over them. */
export function scheduling(
  settings: TritonSettings,
): Pick<PodSpec, 'nodeSelector' | 'tolerations' | 'affinity' | 'topologySpreadConstraints'> {
  const { name, nodeSelector, gpusPerPod } = settings;
  const tolerations = settings.tolerations.map((one) => ({
    operator: one.value === undefined ? 'Exists' : 'Equal',
    ...one,
  }));
  const ofThisServer = { matchLabels: selectorLabels(name) };
  return {
    ...(nodeSelector === undefined ? {} : { nodeSelector }),
    tolerations: [...(gpusPerPod === 0 ? [] : [GPU_TOLERATION]), ...tolerations],
    affinity: {
      podAntiAffinity: {
        // A wish: where one machine has several GPUs and there is no other, two pods on it are better than one.
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 100, podAffinityTerm: { topologyKey: 'kubernetes.io/hostname', labelSelector: ofThisServer } },
        ],
      },
    },
    topologySpreadConstraints: [
      {
        topologyKey: 'topology.kubernetes.io/zone',
        maxSkew: 1,
        // GPUs are often to be had in one zone only: uneven is better than none.
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: ofThisServer,
        // In an update the old pods do not count, as they are about to go.
        matchLabelKeys: ['pod-template-hash'],
      },
    ],
  };
}

/** What of a node one pod gets. GPUs cannot be shared or exceeded, nor can memory and disk without harm to others. */
export function resourceRequirements({ resources, gpusPerPod }: TritonSettings): ResourceRequirements {
  const whole: Record<string, string> = {
    memory: `${resources.memoryGiB}Gi`,
    'ephemeral-storage': `${resources.scratchGiB + TEMPORARY_GIB}Gi`,
    ...(gpusPerPod === 0 ? {} : { 'nvidia.com/gpu': String(gpusPerPod) }),
  };
  return {
    requests: { cpu: String(resources.cpu), ...whole },
    limits: { cpu: String(resources.cpuLimit), ...whole },
  };
}
