import type { Resource, Rule } from '../rule';
import type { Value } from '../value';
import { getContainers, getPod, wantsGpu } from './pods';
import { NODE_POOL, POD_SPEC } from './types';

const TAINT = 'nvidia.com/gpu';

const wantsGpus = (resource: Resource): boolean => getContainers(getPod(resource)).some(wantsGpu);

export const gpuRules: readonly Rule[] = [
  {
    name: 'gpu-pod-limits',
    description:
      'Every container that requests GPUs sets the same number in its limits, which Kubernetes requires, and limits its memory.',
    each: {
      types: Object.keys(POD_SPEC),
      check: (resource, report) => {
        for (const container of getContainers(getPod(resource)).filter(wantsGpu)) {
          const limits = container.at('resources.limits');
          const requests = container.at('resources.requests');
          for (const request of requests.values().filter(({ path }) => path.includes('nvidia.com/'))) {
            const limit = limits.key(request.path.slice(requests.path.length + 1));
            if (limit.isUnknown() || request.isUnknown() || String(limit.raw) === String(request.raw)) continue;
            report({ resource, at: limit, fix: `set it to ${request.shown()}, as in requests` });
          }
          const memory = limits.at('memory');
          if (memory.isMissing())
            report({ resource, at: memory, fix: 'set it, because other pods use the memory of the node too' });
        }
      },
    },
  },
  {
    name: 'gpu-pod-tolerates',
    description: 'Every pod that requests GPUs tolerates the taint of GPU nodes.',
    each: {
      types: Object.keys(POD_SPEC),
      check: (resource, report) => {
        if (!wantsGpus(resource)) return;
        const at = getPod(resource).at('tolerations');
        if (at.isUnknown() || at.items().some(toleratesGpu)) return;
        report({ resource, at, fix: `add { key: "${TAINT}", operator: "Exists", effect: "NoSchedule" }` });
      },
    },
  },
  {
    name: 'gpu-pod-drains',
    description:
      'Every workload with GPUs has a termination grace period of at least 30 seconds, so that open requests can complete.',
    each: {
      types: ['kubernetes:apps/v1:Deployment', 'kubernetes:apps/v1:StatefulSet'],
      check: (resource, report) => {
        if (!wantsGpus(resource)) return;
        const at = getPod(resource).at('terminationGracePeriodSeconds');
        if (!at.isUnknown() && Number(at.raw ?? 30) < 30) {
          report({ resource, at, fix: 'set it to the total time of the preStop hook and the exit' });
        }
      },
    },
  },
  {
    name: 'node-pool-limits',
    description: 'Every Karpenter NodePool limits its size.',
    each: {
      types: [NODE_POOL],
      check: (resource, report) => {
        const at = resource.props.at('spec.limits');
        if (at.isUnknown() || at.values().length > 0) return;
        report({ resource, at, fix: `set cpu, memory or ${TAINT}` });
      },
    },
  },
  {
    name: 'node-pool-gpu-tainted',
    description: 'Every NodePool with GPUs has a taint, so that pods without GPUs do not occupy its nodes.',
    each: {
      types: [NODE_POOL],
      check: (resource, report) => {
        const template = resource.props.at('spec.template.spec');
        if (!isOfGpus(template.at('requirements'))) return;
        const at = template.at('taints');
        if (at.isUnknown() || at.items().some((taint) => taint.at('key').mayBe(TAINT))) return;
        report({ resource, at, fix: `add { key: "${TAINT}", effect: "NoSchedule" }` });
      },
    },
  },
];

/** A toleration without a key tolerates everything. */
function toleratesGpu(toleration: Value): boolean {
  const key = toleration.at('key');
  const effect = toleration.at('effect');
  return key.mayBe(undefined, TAINT) && effect.mayBe(undefined, '', 'NoSchedule');
}

/** Whether only GPU nodes can meet the requirements of a pool, which may name families, types or GPUs. */
function isOfGpus(requirements: Value): boolean {
  return requirements.items().some((requirement) => {
    const key = requirement.at('key').text() ?? '';
    const values = requirement
      .at('values')
      .items()
      .map((value) => value.text() ?? '');
    if (requirement.at('operator').mayBe('DoesNotExist', 'NotIn')) return false;
    if (/\/instance-gpu-/.test(key)) return true;
    const isFamily = /\/(instance-type|instance-family|instance-category)$/.test(key);
    return isFamily && values.length > 0 && values.every((value) => /^(g|p)(\d|$)/.test(value));
  });
}
