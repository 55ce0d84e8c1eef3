import { TAINT_EFFECTS } from '../gpu/gpu-labels';
import { choice, group, integer, list, map, text, texts, type Fields } from './fields';
import { LABEL_VALUE, NODE_LABELS, OBJECT_NAME, QUALIFIED_NAME } from './formats';

/**
 * How the names of ARM types begin: A1, and those with a g after the generation:
 * https://docs.aws.amazon.com/eks/latest/eksctl/arm-support.html (2026-11-27).
 */
const ARM_TYPE = String.raw`a1\.|[a-z]+\d+[a-z]*g`;

export const POOL_FIELDS = {
  name: text('Name of the pool, which is also the value of the label triton-serving/gpu-pool of its nodes.', {
    pattern: /^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/,
    allowed: 'at most 40 lower-case letters, digits and hyphens, beginning with a letter',
  }),
  instanceTypes: texts(
    'EC2 instance types of the nodes. The preview warns of a type that infra/gpu/gpu-instance-types.ts lacks, because its size, quota and price are not checked then.',
    {
      // Nor Grace (p6e-gb200), nor g4ad with GPUs of AMD: no page was read for these two.
      pattern: new RegExp(String.raw`^(?!${ARM_TYPE}|[a-z\d]+-gb|g4ad\.)[gp][a-z0-9-]*\.[a-z0-9-]+$`),
      allowed: 'an x86-64 EC2 instance type of G or P with GPUs of NVIDIA, "g6.xlarge"',
    },
  ),
  capacityTypes: texts(
    'Purchase options of the nodes. Karpenter prefers reserved to spot, and spot to on-demand. A pool with nodes has one of spot and on-demand.',
    { choices: ['reserved', 'spot', 'on-demand'], default: ['spot', 'on-demand'] },
  ),
  maximumGpus: integer('Largest number of GPUs in the pool. Not for a pool with nodes.', {
    minimum: 1,
    maximum: 1024,
    default: 8,
  }),
  nodes: integer(
    'Number of nodes of a managed node group, which run all the time and cost no fee of Auto Mode. Empty: Karpenter, which Auto Mode includes, starts and deletes nodes as replicas need them.',
    { optional: true, minimum: 1, maximum: 100 },
  ),
  zones: texts('Availability zones of the nodes. Empty: all zones of the network.', { ...LABEL_VALUE, default: [] }),
  labels: map('Labels of the nodes, in addition to those that every pool sets.', NODE_LABELS),
  taints: list(
    'Taints of the nodes, in addition to nvidia.com/gpu, which every pool has. The replicas tolerate them.',
    {
      key: text('Key of the taint.', QUALIFIED_NAME),
      value: text('Value of the taint.', { ...LABEL_VALUE, optional: true }),
      effect: choice('Effect on pods that do not tolerate the taint.', {
        choices: TAINT_EFFECTS,
        default: 'NoSchedule',
      }),
    },
  ),
  disruption: group(
    'When Karpenter replaces nodes, in the words of a NodePool: https://karpenter.sh/docs/concepts/disruption. Not for a pool with nodes.',
    {
      consolidateAfter: text('Time after which a node without pods is deleted. Default: 10m.', {
        optional: true,
        pattern: /^(\d{1,4}[smh]|Never)$/,
        allowed: 'a time, "10m", or "Never"',
      }),
      expireAfter: text(
        'Time after which Karpenter drains a node, regardless of the budgets. Auto Mode allows at most 504 hours with the drain, so a higher value is lowered. Default: 336h.',
        { optional: true, pattern: /^([1-9]\d?|[1-4]\d\d|50[0-4])h$/, allowed: 'hours, from "1h" to "504h"' },
      ),
      budgets: list('Disruption budgets of the NodePool. Default: one node at a time.', {
        nodes: text('Number or percentage of nodes that may be replaced at the same time.', {
          pattern: /^(\d{1,2}%|100%|\d{1,3})$/,
          allowed: 'a number or a percentage in quotes, "1" or "20%"',
        }),
        schedule: text('When the budget begins to apply, together with duration. Empty: it always applies.', {
          optional: true,
          pattern: /^(\S+ ){4}\S+$/,
          allowed: 'a cron schedule in UTC, "0 6 * * *"',
        }),
        duration: text('How long the budget applies from each time of schedule on.', {
          optional: true,
          pattern: /^(\d{1,3}h)?(\d{1,2}m)?$/,
          allowed: 'a time, "20h"',
        }),
        reasons: texts('Reasons that the budget limits. Empty: all.', {
          optional: true,
          choices: ['Empty', 'Drifted', 'Underutilized'],
        }),
      }),
    },
    { optional: true },
  ),
  diskGiB: integer(
    'Least disk of each node in GiB, for the operating system, the image of Triton (about 20 GiB unpacked) and the scratch volumes of the replicas. If the local NVMe storage of the instance is larger, images and volumes are there; otherwise the disk is an EBS volume of this size, which is slower and costs extra.',
    { minimum: 50, maximum: 16384, default: 150 },
  ),
  capacityReservationIds: texts('Ids of EC2 capacity reservations, for the capacity type reserved.', {
    pattern: /^cr-[0-9a-f]+$/,
    allowed: 'the id of an EC2 capacity reservation, "cr-0123456789abcdef0"',
    default: [],
  }),
  nodeClass: group(
    'Existing node class of the Karpenter of an existing cluster, which starts and deletes the nodes. Required there, and only allowed there.',
    {
      group: text('API group of the object, such as karpenter.k8s.aws.', OBJECT_NAME),
      kind: text('Kind of the object, such as EC2NodeClass.'),
      name: text('Name of the object.', OBJECT_NAME),
    },
    { optional: true },
  ),
} as const satisfies Fields;
