import { GPU_INSTANCE_TYPE_NAMES } from '../gpu-instance-types';
import { TAINT_EFFECTS } from '../gpu-labels';
import type { Fields } from './fields';

const NAME = /^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/;

/** Where the nodes of a pool come from. */
const MECHANISMS = ['auto-mode', 'managed-node-group', 'karpenter'] as const;

/** One GPU node pool. */
export const POOL_FIELDS = {
  name: {
    kind: 'text',
    pattern: NAME,
    allowed: 'at most 40 lower-case letters, digits and hyphens, beginning with a letter',
    description: 'Name of the pool; its nodes have it as label triton-serving/gpu-pool.',
  },
  mechanism: {
    kind: 'choice',
    choices: MECHANISMS,
    default: 'auto-mode',
    description:
      'auto-mode: a NodePool and NodeClass of EKS Auto Mode, from 0. managed-node-group: machines of a fixed number. karpenter: a NodePool for a Karpenter that the cluster has.',
  },
  instanceTypes: {
    kind: 'texts',
    choices: GPU_INSTANCE_TYPE_NAMES,
    description: 'Which machines it may take, from infra/gpu-instance-types.ts.',
  },
  capacityTypes: {
    kind: 'texts',
    choices: ['reserved', 'spot', 'on-demand'],
    default: ['spot', 'on-demand'],
    description: 'How they are paid for. Of several, reserved is taken first, then spot, then on-demand.',
  },
  maximumGpus: {
    kind: 'integer',
    minimum: 1,
    maximum: 1024,
    default: 8,
    description: 'It never grows beyond so many GPUs. Not for managed-node-group.',
  },
  minimumNodes: {
    kind: 'integer',
    minimum: 0,
    maximum: 100,
    default: 0,
    description: 'Only for managed-node-group: as many nodes there are at least, and at first.',
  },
  maximumNodes: {
    kind: 'integer',
    minimum: 1,
    maximum: 100,
    default: 2,
    description: 'Only for managed-node-group: as many nodes there are at most.',
  },
  zones: {
    kind: 'texts',
    default: [],
    description: 'Availability zones that it keeps to. Empty: all of the network.',
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
        description: 'What it does to pods that do not accept it.',
      },
    },
    description: 'Further taints, besides nvidia.com/gpu, which every pool has. Triton accepts them.',
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
    description: 'A node without pods goes after so long. Not for managed-node-group.',
  },
  expireAfterHours: {
    kind: 'integer',
    minimum: 1,
    maximum: 504,
    default: 336,
    description: 'A node is replaced after so long; Auto Mode takes at most 504 hours. Not for managed-node-group.',
  },
  diskGiB: {
    kind: 'integer',
    minimum: 50,
    maximum: 16384,
    default: 150,
    description:
      'Disk of a node: the system, the Triton image (about 20 GiB unpacked) and the scratch volumes of its pods.',
  },
  capacityReservationIds: {
    kind: 'texts',
    pattern: /^cr-[0-9a-f]+$/,
    allowed: 'the id of an EC2 capacity reservation, "cr-0123456789abcdef0"',
    default: [],
    description: 'Capacity reservations that capacity type reserved takes from.',
  },
  ami: {
    kind: 'choice',
    choices: ['AL2023', 'Bottlerocket'],
    default: 'AL2023',
    description: 'Only for managed-node-group: the system of its machines, with NVIDIA drivers.',
  },
  timeSlices: {
    kind: 'integer',
    minimum: 1,
    maximum: 48,
    default: 1,
    description: 'Only for managed-node-group: pods that share one GPU; memory is not divided. 1: none.',
  },
  dcgmExporter: {
    kind: 'flag',
    default: false,
    description: 'Only for managed-node-group: runs DCGM exporter on its nodes, for metrics of the GPUs.',
  },
  nodeClass: {
    kind: 'object',
    optional: true,
    fields: {
      group: { kind: 'text', description: 'API group, such as karpenter.k8s.aws.' },
      kind: { kind: 'text', description: 'Kind, such as EC2NodeClass.' },
      name: { kind: 'text', description: 'Name of the object.' },
    },
    description: 'Only for karpenter: the node class that is there.',
  },
} as const satisfies Fields;
