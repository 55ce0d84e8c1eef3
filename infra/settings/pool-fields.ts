import { GPU_INSTANCE_TYPE_NAMES } from '../gpu/gpu-instance-types';
import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import type { Fields } from './fields';

const NAME = /^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/;

/** Mechanisms that create the nodes of a pool. */
const MECHANISMS = ['auto-mode', 'managed-node-group', 'karpenter'] as const;

/** Settings of one GPU node pool. */
export const POOL_FIELDS = {
  name: {
    kind: 'text',
    pattern: NAME,
    allowed: 'at most 40 lower-case letters, digits and hyphens, beginning with a letter',
    description: 'Name of the pool, and value of the label triton-serving/gpu-pool of its nodes.',
  },
  mechanism: {
    kind: 'choice',
    choices: MECHANISMS,
    default: 'auto-mode',
    description:
      'auto-mode: a NodePool and NodeClass of EKS Auto Mode, which scales from 0. managed-node-group: a managed node group without an autoscaler. karpenter: a NodePool for the Karpenter of the cluster.',
  },
  instanceTypes: {
    kind: 'texts',
    choices: GPU_INSTANCE_TYPE_NAMES,
    description: 'Instance types to use, from infra/gpu/gpu-instance-types.ts.',
  },
  capacityTypes: {
    kind: 'texts',
    choices: ['reserved', 'spot', 'on-demand'],
    default: ['spot', 'on-demand'],
    description: 'Purchase options of the nodes. With several, reserved is preferred to spot, and spot to on-demand.',
  },
  maximumGpus: {
    kind: 'integer',
    minimum: 1,
    maximum: 1024,
    default: 8,
    description: 'Largest number of GPUs in the pool. Not for managed-node-group.',
  },
  minimumNodes: {
    kind: 'integer',
    minimum: 0,
    maximum: 100,
    default: 0,
    description: 'Only for managed-node-group: smallest number of nodes, which is also the initial one.',
  },
  maximumNodes: {
    kind: 'integer',
    minimum: 1,
    maximum: 100,
    default: 2,
    description: 'Only for managed-node-group: largest number of nodes.',
  },
  zones: {
    kind: 'texts',
    default: [],
    description: 'Availability zones of the nodes. Empty: all zones of the network.',
  },
  labels: { kind: 'map', description: 'Further labels of its nodes.' },
  taints: {
    kind: 'objects',
    fields: {
      key: { kind: 'text', description: 'Key of the taint.' },
      value: { kind: 'text', optional: true, description: 'Value of the taint.' },
      effect: {
        kind: 'choice',
        choices: TAINT_EFFECTS,
        default: 'NoSchedule',
        description: 'Effect on pods that do not tolerate the taint.',
      },
    },
    description: 'Taints in addition to nvidia.com/gpu, which every pool has. Triton tolerates them.',
  },
  disruptedNodes: {
    kind: 'text',
    pattern: /^(\d{1,2}%|100%|\d{1,3})$/,
    allowed: 'a number or a percentage, "1" or "20%"',
    default: '1',
    description:
      'Nodes that may be replaced at once for consolidation, updates and expiry. Not for managed-node-group.',
  },
  consolidateAfterMinutes: {
    kind: 'integer',
    minimum: 0,
    maximum: 1440,
    default: 10,
    description: 'Minutes after which a node without pods is deleted. Not for managed-node-group.',
  },
  expireAfterHours: {
    kind: 'integer',
    minimum: 1,
    maximum: 504,
    default: 336,
    description: 'Hours after which a node is replaced; at most 504 with Auto Mode. Not for managed-node-group.',
  },
  diskGiB: {
    kind: 'integer',
    minimum: 50,
    maximum: 16384,
    default: 150,
    description:
      'Disk of a node: it holds the operating system, the Triton image (about 20 GiB unpacked) and the scratch volumes of the pods.',
  },
  capacityReservationIds: {
    kind: 'texts',
    pattern: /^cr-[0-9a-f]+$/,
    allowed: 'the id of an EC2 capacity reservation, "cr-0123456789abcdef0"',
    default: [],
    description: 'Capacity reservations for the capacity type reserved.',
  },
  ami: {
    kind: 'choice',
    choices: ['AL2023', 'Bottlerocket'],
    default: 'AL2023',
    description: 'Only for managed-node-group: operating system of the nodes, with NVIDIA drivers.',
  },
  timeSlices: {
    kind: 'integer',
    minimum: 1,
    maximum: 48,
    default: 1,
    description:
      'Only for managed-node-group: number of pods that share one GPU; its memory is not divided. 1: no sharing.',
  },
  dcgmExporter: {
    kind: 'flag',
    default: false,
    description: 'Only for managed-node-group: run DCGM exporter on the nodes, for GPU metrics.',
  },
  nodeClass: {
    kind: 'object',
    optional: true,
    fields: {
      group: { kind: 'text', description: 'API group, such as karpenter.k8s.aws.' },
      kind: { kind: 'text', description: 'Kind, such as EC2NodeClass.' },
      name: { kind: 'text', description: 'Name of the object.' },
    },
    description: 'Only for karpenter: the existing node class.',
  },
} as const satisfies Fields;
