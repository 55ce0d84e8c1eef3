import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import { DAYS } from '../gpu/maintenance-window';
import type { Fields } from './fields';

const NAME = /^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/;

/** Mechanisms that create the nodes of a pool. */
const MECHANISMS = ['auto-mode', 'managed-node-group', 'karpenter'] as const;

/** Settings of one GPU node pool. */
export const POOL_FIELDS = {
  name: {
    kind: 'string',
    pattern: NAME,
    allowed: 'at most 40 lower-case letters, digits and hyphens, beginning with a letter',
    description: 'Name of the pool, which is also the value of the label triton-serving/gpu-pool of its nodes.',
  },
  mechanism: {
    kind: 'choice',
    choices: MECHANISMS,
    default: 'auto-mode',
    description:
      'How nodes are created. auto-mode: a NodePool and NodeClass of EKS Auto Mode, which scales from 0. managed-node-group: managed node groups, without an autoscaler. karpenter: a NodePool for the Karpenter of an existing cluster.',
  },
  instanceTypes: {
    kind: 'stringArray',
    description: 'EC2 instance types of the nodes, from infra/gpu/gpu-instance-types.ts or instanceTypeFacts.',
  },
  capacityTypes: {
    kind: 'stringArray',
    choices: ['reserved', 'spot', 'on-demand'],
    default: ['spot', 'on-demand'],
    description:
      'Purchase options of the nodes. Karpenter prefers reserved to spot, and spot to on-demand; a managed node group is created for each option.',
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
    description: 'Smallest number of nodes of each group, with which it is created. Only for managed-node-group.',
  },
  maximumNodes: {
    kind: 'integer',
    minimum: 1,
    maximum: 100,
    default: 2,
    description: 'Largest number of nodes of each group. Only for managed-node-group.',
  },
  zones: {
    kind: 'stringArray',
    default: [],
    description: 'Availability zones of the nodes. Empty: all zones of the network.',
  },
  labels: { kind: 'stringMap', description: 'Labels of the nodes, in addition to those that every pool sets.' },
  taints: {
    kind: 'objectArray',
    fields: {
      key: { kind: 'string', description: 'Key of the taint.' },
      value: { kind: 'string', optional: true, description: 'Value of the taint.' },
      effect: {
        kind: 'choice',
        choices: TAINT_EFFECTS,
        default: 'NoSchedule',
        description: 'Effect on pods that do not tolerate the taint.',
      },
    },
    description:
      'Taints of the nodes, in addition to nvidia.com/gpu, which every pool has. The replicas tolerate them.',
  },
  disruptedNodes: {
    kind: 'string',
    pattern: /^(\d{1,2}%|100%|\d{1,3})$/,
    allowed: 'a number or a percentage, "1" or "20%"',
    default: '1',
    description:
      'Number or percentage of nodes that may be replaced at the same time for consolidation and updates. Karpenter ignores it for nodes that expire. Not for managed-node-group.',
  },
  maintenanceWindow: {
    kind: 'object',
    optional: true,
    fields: {
      days: {
        kind: 'stringArray',
        choices: DAYS,
        default: [],
        description: 'Days on which the window begins. Empty: every day.',
      },
      startHour: { kind: 'integer', minimum: 0, maximum: 23, description: 'Hour at which the window begins, in UTC.' },
      hours: { kind: 'integer', minimum: 1, maximum: 23, description: 'Length of the window, in hours.' },
    },
    description:
      'When nodes may be replaced for updates of their definition or of the image of AWS, within disruptedNodes. Empty nodes are deleted at any time, and nodes that expire are drained at any time. Empty: at any time. Not for managed-node-group.',
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
    description:
      'Hours after which Karpenter drains a node, regardless of disruptedNodes; nodes that were created together expire together, and only the disruption budget of the replicas limits them. Auto Mode updates nodes about weekly within disruptedNodes, so few nodes get that old. It allows at most 504 hours with the drain, so a higher value is lowered. Not for managed-node-group.',
  },
  diskGiB: {
    kind: 'integer',
    minimum: 50,
    maximum: 16384,
    default: 150,
    description:
      'Least disk of each node in GiB, for the operating system, the image of Triton (about 20 GiB unpacked) and the scratch volumes of the replicas. If the local NVMe storage of the instance is larger, images and volumes are there; otherwise the disk is an EBS volume of this size.',
  },
  capacityReservationIds: {
    kind: 'stringArray',
    pattern: /^cr-[0-9a-f]+$/,
    allowed: 'the id of an EC2 capacity reservation, "cr-0123456789abcdef0"',
    default: [],
    description: 'Ids of EC2 capacity reservations, for the capacity type reserved.',
  },
  ami: {
    kind: 'choice',
    choices: ['AL2023', 'Bottlerocket'],
    default: 'AL2023',
    description: 'Operating system of the nodes, which includes the NVIDIA driver. Only for managed-node-group.',
  },
  timeSlices: {
    kind: 'integer',
    minimum: 1,
    maximum: 48,
    default: 1,
    description:
      'Number of replicas that share one GPU in turn, without dividing its memory; 1 means that GPUs are not shared. Only for managed-node-group.',
  },
  dcgmExporter: {
    kind: 'boolean',
    default: false,
    description:
      'Whether the nodes run DCGM exporter, which provides GPU metrics. With monitoring, Prometheus scrapes it. Only for managed-node-group.',
  },
  nodeClass: {
    kind: 'object',
    optional: true,
    fields: {
      group: { kind: 'string', description: 'API group of the object, such as karpenter.k8s.aws.' },
      kind: { kind: 'string', description: 'Kind of the object, such as EC2NodeClass.' },
      name: { kind: 'string', description: 'Name of the object.' },
    },
    description: 'Existing node class of Karpenter. Required for karpenter, and only allowed there.',
  },
} as const satisfies Fields;
