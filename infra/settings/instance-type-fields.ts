import type { Fields } from './fields';

/**
 * How the names of ARM types begin: A1, and those with a g after the generation:
 * https://docs.aws.amazon.com/eks/latest/eksctl/arm-support.html (2026-11-27).
 */
export const ARM_TYPE = String.raw`a1\.|[a-z]+\d+[a-z]*g`;

/** Facts of one EC2 instance type that the list of this package lacks. */
export const INSTANCE_TYPE_FIELDS = {
  name: {
    kind: 'string',
    // Nor Grace (p6e-gb200), nor g4ad with GPUs of AMD: no page was read for these two.
    pattern: new RegExp(String.raw`^(?!${ARM_TYPE}|[a-z\d]+-gb|g4ad\.)[gp][a-z0-9-]*\.[a-z0-9-]+$`),
    allowed: 'an x86-64 EC2 instance type of G or P with GPUs of NVIDIA, "g7e.2xlarge"',
    description: 'Name of the instance type, which must be x86-64.',
  },
  gpu: { kind: 'string', description: 'Name of its GPU, such as L4.' },
  computeCapability: {
    kind: 'string',
    optional: true,
    pattern: /^\d{1,2}\.\d$/,
    allowed: 'a compute capability in quotes, "8.9"',
    description: 'CUDA compute capability of the GPU. Only for a GPU that this package does not know.',
  },
  gpuMemoryGB: {
    kind: 'integer',
    optional: true,
    minimum: 1,
    maximum: 10_000,
    description: 'Memory of one GPU according to the data sheet. Only for a GPU that this package does not know.',
  },
  gpus: { kind: 'integer', minimum: 1, maximum: 64, description: 'Number of GPUs.' },
  vcpus: { kind: 'integer', minimum: 2, maximum: 2048, description: 'Number of vCPUs.' },
  memoryGiB: { kind: 'integer', minimum: 4, maximum: 65_536, description: 'Memory of the instance.' },
  podMemoryMiB: {
    kind: 'integer',
    optional: true,
    minimum: 1024,
    maximum: 67_108_864,
    description:
      'Memory for pods, from the list of instance types of Karpenter. Empty: the memory without the largest reserve of a type of this size.',
  },
  nvmeGB: {
    kind: 'integer',
    default: 0,
    minimum: 0,
    maximum: 1_000_000,
    description: 'Local NVMe storage of all disks together; 0 for none.',
  },
  usdPerHour: {
    kind: 'number',
    minimum: 0,
    maximum: 10_000,
    description: 'Price of an on-demand Linux instance, for estimates.',
  },
} as const satisfies Fields;
