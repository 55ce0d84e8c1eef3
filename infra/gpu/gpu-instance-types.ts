/** GPUs with their memory according to the data sheet, in 10^9 bytes. Drivers report slightly less or more. */
const GPUS = {
  T4: 16,
  A10G: 24,
  L4: 24,
  L40S: 48,
  A100: 40,
  'A100-80GB': 80,
  H100: 80,
  H200: 141,
  B200: 180,
} as const;

type GpuModel = keyof typeof GPUS;

/** Compute capabilities: https://developer.nvidia.com/cuda-gpus (2026-12-01). */
const CAPABILITIES: Record<GpuModel, string> = {
  T4: '7.5',
  A10G: '8.6',
  L4: '8.9',
  L40S: '8.9',
  A100: '8.0',
  'A100-80GB': '8.0',
  H100: '9.0',
  H200: '9.0',
  B200: '10.0',
};

export type GpuInstanceFacts = ReturnType<typeof facts>;

/**
 * @param podCores and `podMemoryMiB`: what Karpenter expects to be left for pods
 * @param nvmeGB local NVMe storage of all disks together, in 10^9 bytes
 * @param usdPerHour price of an on-demand Linux instance
 */
const facts = (
  gpu: GpuModel,
  gpus: number,
  vcpus: number,
  memoryGiB: number,
  podCores: number,
  podMemoryMiB: number,
  nvmeGB: number,
  usdPerHour: number,
) => ({ gpu, gpus, vcpus, memoryGiB, podCores, podMemoryMiB, nvmeGB, usdPerHour });

/**
 * The x86-64 instance types whose facts this package knows: GPU, number of GPUs, vCPUs, GiB of memory, cores for pods, MiB of memory
 * for pods, GB of local NVMe storage, price (infra/cost.ts). The three numbers before the price are from
 * https://github.com/aws/karpenter-provider-aws/blob/1d927085dd81/website/content/en/preview/reference/instance-types.md
 * (2026-08-21), which lists what DescribeInstanceTypes of EC2 returns.
 */
export const GPU_INSTANCE_TYPES = {
  'g4dn.xlarge': facts('T4', 1, 4, 16, 3.92, 14_481, 125, 0.526),
  'g4dn.2xlarge': facts('T4', 1, 8, 32, 7.91, 29_636, 225, 0.752),
  'g4dn.4xlarge': facts('T4', 1, 16, 64, 15.89, 59_946, 225, 1.204),
  'g4dn.8xlarge': facts('T4', 1, 32, 128, 31.85, 120_248, 900, 2.176),
  'g4dn.12xlarge': facts('T4', 4, 48, 192, 47.81, 178_933, 900, 3.912),
  'g4dn.16xlarge': facts('T4', 1, 64, 256, 63.77, 241_490, 900, 4.352),
  'g5.xlarge': facts('A10G', 1, 4, 16, 3.92, 14_162, 250, 1.006),
  'g5.2xlarge': facts('A10G', 1, 8, 32, 7.91, 29_317, 450, 1.212),
  'g5.4xlarge': facts('A10G', 1, 16, 64, 15.89, 57_691, 600, 1.624),
  'g5.8xlarge': facts('A10G', 1, 32, 128, 31.85, 118_312, 900, 2.448),
  'g5.12xlarge': facts('A10G', 4, 48, 192, 47.81, 173_400, 3800, 5.672),
  'g5.16xlarge': facts('A10G', 1, 64, 256, 63.77, 239_554, 1900, 4.096),
  'g5.24xlarge': facts('A10G', 4, 96, 384, 95.69, 355_262, 3800, 8.144),
  'g5.48xlarge': facts('A10G', 8, 192, 768, 191.45, 723_299, 7600, 16.288),
  'g6.xlarge': facts('L4', 1, 4, 16, 3.92, 14_162, 250, 0.8048),
  'g6.2xlarge': facts('L4', 1, 8, 32, 7.91, 29_317, 450, 0.9776),
  'g6.4xlarge': facts('L4', 1, 16, 64, 15.89, 57_691, 600, 1.3232),
  'g6.8xlarge': facts('L4', 1, 32, 128, 31.85, 118_312, 900, 2.0144),
  'g6.12xlarge': facts('L4', 4, 48, 192, 47.81, 178_933, 3760, 4.6016),
  'g6.16xlarge': facts('L4', 1, 64, 256, 63.77, 234_021, 1880, 3.3968),
  'g6.24xlarge': facts('L4', 4, 96, 384, 95.69, 355_262, 3760, 6.6752),
  'g6.48xlarge': facts('L4', 8, 192, 768, 191.45, 718_987, 7520, 13.3504),
  'g6e.xlarge': facts('L40S', 1, 4, 32, 3.92, 29_317, 250, 1.861),
  'g6e.2xlarge': facts('L40S', 1, 8, 64, 7.91, 59_627, 450, 2.24208),
  'g6e.4xlarge': facts('L40S', 1, 16, 128, 15.89, 118_312, 600, 3.00424),
  'g6e.8xlarge': facts('L40S', 1, 32, 256, 31.85, 239_554, 900, 4.52856),
  'g6e.12xlarge': facts('L40S', 4, 48, 384, 47.81, 360_157, 3800, 10.49264),
  'g6e.16xlarge': facts('L40S', 1, 64, 512, 63.77, 476_504, 1900, 7.57719),
  'g6e.24xlarge': facts('L40S', 4, 96, 768, 95.69, 721_682, 3800, 15.06559),
  'g6e.48xlarge': facts('L40S', 8, 192, 1536, 191.45, 1_449_132, 7600, 30.13118),
  'p4d.24xlarge': facts('A100', 8, 96, 1152, 95.69, 1_082_712, 8000, 21.957642),
  'p4de.24xlarge': facts('A100-80GB', 8, 96, 1152, 95.69, 1_082_712, 8000, 27.44705),
  'p5.4xlarge': facts('H100', 1, 16, 256, 15.89, 240_830, 3800, 6.88),
  'p5.48xlarge': facts('H100', 8, 192, 2048, 191.45, 1_938_410, 30_400, 55.04),
  'p5en.48xlarge': facts('H200', 8, 192, 2048, 191.45, 1_937_332, 30_400, 63.296),
  'p6-b200.48xlarge': facts('B200', 8, 192, 2048, 191.45, 1_937_332, 30_400, 113.9328),
} as const satisfies Record<string, GpuInstanceFacts>;

export type GpuInstanceType = keyof typeof GPU_INSTANCE_TYPES;

export const GPU_INSTANCE_TYPE_NAMES = Object.keys(GPU_INSTANCE_TYPES) as GpuInstanceType[];

/**
 * Share of the memory that Karpenter subtracts for the hypervisor, by default
 * (https://karpenter.sh/docs/reference/settings, VM_MEMORY_OVERHEAD_PERCENT, read 2026-11-25).
 */
export const HYPERVISOR_SHARE = 0.075;

/** The facts of an instance type; undefined for a type that the table lacks. */
export const findFacts = (type: string): GpuInstanceFacts | undefined =>
  Object.hasOwn(GPU_INSTANCE_TYPES, type) ? GPU_INSTANCE_TYPES[type as GpuInstanceType] : undefined;

export const getKnownTypes = (types: readonly string[]): (GpuInstanceFacts & { type: string })[] =>
  types.flatMap((type) => {
    const facts = findFacts(type);
    return facts === undefined ? [] : [{ type, ...facts }];
  });

export const getGpuMemory = ({ gpu }: GpuInstanceFacts): number => GPUS[gpu] * 1e9;

/** Local NVMe storage of an instance, in GiB. */
export const getNvmeGiB = ({ nvmeGB }: GpuInstanceFacts): number => Math.floor((nvmeGB * 1e9) / 2 ** 30);

/** Compute capabilities of the GPUs of instance types; empty if one of the types is not in the table. */
export function getCapabilities(types: readonly string[]): string[] {
  const known = getKnownTypes(types);
  return known.length < types.length ? [] : [...new Set(known.map(({ gpu }) => CAPABILITIES[gpu]))];
}
