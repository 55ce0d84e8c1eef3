import type { Resource, Rule } from '../pack';
import type { Value } from '../value';
import { getPod, POD_TYPES, requestsGpu } from './pods';

const TAINT = 'nvidia.com/gpu';
const NODE_POOL = 'kubernetes:karpenter.sh/v1:NodePool';
const NODE_GROUP = 'aws:eks/nodeGroup:NodeGroup';

export const gpuRules: readonly Rule[] = [
  {
    name: 'gpu-pod-tolerates',
    description: 'Every pod that requests GPUs tolerates the taint of GPU nodes.',
    applies: POD_TYPES,
    check: (resource, report) => {
      const at = getPod(resource).at('tolerations');
      if (!requestsGpu(resource) || at.isUnknown() || at.items().some(toleratesGpu)) return;
      report(at, `add { key: "${TAINT}", operator: "Exists", effect: "NoSchedule" }`);
    },
  },
  {
    name: 'gpu-nodes-tainted',
    description:
      'Every NodePool and managed node group with GPUs has their taint, so that other pods do not occupy them.',
    applies: [NODE_POOL, NODE_GROUP],
    check: (resource, report) => {
      const at = resource.props.at(resource.type === NODE_POOL ? 'spec.template.spec.taints' : 'taints');
      if (!hasGpus(resource) || at.isUnknown() || at.items().some((taint) => taint.at('key').mayBe(TAINT))) return;
      report(at, `add the taint ${TAINT} with the effect NoSchedule`);
    },
  },
  {
    name: 'gpu-pool-limited',
    description: 'Every NodePool limits its size, because Karpenter starts a GPU machine for every pending pod.',
    applies: [NODE_POOL],
    check: ({ props }, report) => {
      const at = props.at('spec.limits');
      if (!at.isUnknown() && at.values().length === 0) report(at, `set ${TAINT}, or cpu and memory`);
    },
  },
];

/** A toleration without a key tolerates everything. */
const toleratesGpu = (toleration: Value): boolean =>
  toleration.at('key').mayBe(undefined, TAINT) && toleration.at('effect').mayBe(undefined, '', 'NoSchedule');

/** Whether all nodes of a pool or group have GPUs. */
function hasGpus({ type, props }: Resource): boolean {
  if (type === NODE_GROUP) return /NVIDIA|GPU/.test(props.at('amiType').text() ?? '');
  const requirements = props.at('spec.template.spec.requirements').items();
  return requirements.some((requirement) => {
    const key = requirement.at('key').text() ?? '';
    const values = requirement.at('values').items();
    if (requirement.at('operator').mayBe('DoesNotExist', 'NotIn')) return false;
    if (key.includes('/instance-gpu-')) return true;
    const isFamily = /\/instance-(type|family|category)$/.test(key);
    return isFamily && values.length > 0 && values.every((value) => /^(g|p)(\d|$)/.test(value.text() ?? ''));
  });
}
