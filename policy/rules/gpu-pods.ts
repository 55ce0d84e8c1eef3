import type { Resource, Rule } from '../rule';
import type { Value } from '../value';
import { containersOf, podOf, wantsGpu } from './pods';
import { NODE_POOL, POD_SPEC } from './types';

const TAINT = 'nvidia.com/gpu';

const wantsGpus = (resource: Resource): boolean => containersOf(podOf(resource)).some(wantsGpu);

export const gpuRules: readonly Rule[] = [
  {
    name: 'gpu-pod-limits',
    description: 'A container that wants GPUs says so in its limits, where alone Kubernetes gives them out.',
    each: {
      types: Object.keys(POD_SPEC),
      check: (resource, report) => {
        for (const container of containersOf(podOf(resource)).filter(wantsGpu)) {
          const limits = container.at('resources.limits');
          const requests = container.at('resources.requests');
          for (const request of requests.values().filter(({ path }) => path.includes('nvidia.com/'))) {
            const limit = limits.key(request.path.slice(requests.path.length + 1));
            if (limit.isUnknown() || request.isUnknown() || String(limit.raw) === String(request.raw)) continue;
            report({ resource, at: limit, fix: `set it to ${request.shown()}, as in requests` });
          }
          const memory = limits.at('memory');
          if (memory.isMissing()) report({ resource, at: memory, fix: 'set it: the node has other pods' });
        }
      },
    },
  },
  {
    name: 'gpu-pod-tolerates',
    description: 'A pod that wants GPUs tolerates the taint that keeps all others away from GPU nodes.',
    each: {
      types: Object.keys(POD_SPEC),
      check: (resource, report) => {
        if (!wantsGpus(resource)) return;
        const at = podOf(resource).at('tolerations');
        if (at.isUnknown() || at.items().some(toleratesGpu)) return;
        report({ resource, at, fix: `add { key: "${TAINT}", operator: "Exists", effect: "NoSchedule" }` });
      },
    },
  },
  {
    name: 'gpu-pod-drains',
    description:
      'A server on a GPU is given the time to end what it was asked for: at least the default of 30 seconds.',
    each: {
      types: ['kubernetes:apps/v1:Deployment', 'kubernetes:apps/v1:StatefulSet'],
      check: (resource, report) => {
        if (!wantsGpus(resource)) return;
        const at = podOf(resource).at('terminationGracePeriodSeconds');
        if (!at.isUnknown() && Number(at.raw ?? 30) < 30) {
          report({ resource, at, fix: 'set it to what the preStop hook and the exit take together' });
        }
      },
    },
  },
  {
    name: 'node-pool-limits',
    description: 'A pool of nodes that grows by itself has an end to it.',
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
    description: 'GPU nodes have a taint, so that what needs no GPU does not keep them alive.',
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
