/** What a GPU is, as far as a model has to know. */
export interface Gpu {
  /** GiB of memory of one GPU. */
  memoryGiB: number;
  /** CUDA compute capability: a TensorRT plan runs only on the one that it was built on. */
  computeCapability: string;
}

/** The GPUs of the instance types below. */
const GPUS = {
  T4: { memoryGiB: 16, computeCapability: '7.5' },
  A10G: { memoryGiB: 24, computeCapability: '8.6' },
  L4: { memoryGiB: 24, computeCapability: '8.9' },
  L40S: { memoryGiB: 48, computeCapability: '8.9' },
  A100: { memoryGiB: 40, computeCapability: '8.0' },
  'A100-80GB': { memoryGiB: 80, computeCapability: '8.0' },
  H100: { memoryGiB: 80, computeCapability: '9.0' },
  H200: { memoryGiB: 141, computeCapability: '9.0' },
  B200: { memoryGiB: 180, computeCapability: '10.0' },
} as const satisfies Record<string, Gpu>;

export type GpuModel = keyof typeof GPUS;

/** One EC2 instance type with GPUs. */
export interface GpuInstanceFacts {
  gpu: GpuModel;
  gpus: number;
  vcpus: number;
  memoryGiB: number;
  /** GB of NVMe disks in the machine itself; 0: it has none. */
  localDiskGB: number;
}

const facts = (
  gpu: GpuModel,
  gpus: number,
  vcpus: number,
  memoryGiB: number,
  localDiskGB: number,
): GpuInstanceFacts => ({ gpu, gpus, vcpus, memoryGiB, localDiskGB });

/** The x86-64 instance types that pools may name. A new row needs its price in prices.ts, or nothing compiles. */
export const GPU_INSTANCE_TYPES = {
  'g4dn.xlarge': facts('T4', 1, 4, 16, 125),
  'g4dn.2xlarge': facts('T4', 1, 8, 32, 225),
  'g4dn.4xlarge': facts('T4', 1, 16, 64, 225),
  'g4dn.8xlarge': facts('T4', 1, 32, 128, 900),
  'g4dn.12xlarge': facts('T4', 4, 48, 192, 900),
  'g4dn.16xlarge': facts('T4', 1, 64, 256, 900),
  'g5.xlarge': facts('A10G', 1, 4, 16, 250),
  'g5.2xlarge': facts('A10G', 1, 8, 32, 450),
  'g5.4xlarge': facts('A10G', 1, 16, 64, 600),
  'g5.8xlarge': facts('A10G', 1, 32, 128, 900),
  'g5.12xlarge': facts('A10G', 4, 48, 192, 3800),
  'g5.16xlarge': facts('A10G', 1, 64, 256, 1900),
  'g5.24xlarge': facts('A10G', 4, 96, 384, 3800),
  'g5.48xlarge': facts('A10G', 8, 192, 768, 7600),
  'g6.xlarge': facts('L4', 1, 4, 16, 250),
  'g6.2xlarge': facts('L4', 1, 8, 32, 450),
  'g6.4xlarge': facts('L4', 1, 16, 64, 600),
  'g6.8xlarge': facts('L4', 1, 32, 128, 900),
  'g6.12xlarge': facts('L4', 4, 48, 192, 3760),
  'g6.16xlarge': facts('L4', 1, 64, 256, 1880),
  'g6.24xlarge': facts('L4', 4, 96, 384, 3760),
  'g6.48xlarge': facts('L4', 8, 192, 768, 7520),
  'g6e.xlarge': facts('L40S', 1, 4, 32, 250),
  'g6e.2xlarge': facts('L40S', 1, 8, 64, 450),
  'g6e.4xlarge': facts('L40S', 1, 16, 128, 600),
  'g6e.8xlarge': facts('L40S', 1, 32, 256, 900),
  'g6e.12xlarge': facts('L40S', 4, 48, 384, 3800),
  'g6e.16xlarge': facts('L40S', 1, 64, 512, 1900),
  'g6e.24xlarge': facts('L40S', 4, 96, 768, 3800),
  'g6e.48xlarge': facts('L40S', 8, 192, 1536, 7600),
  'p4d.24xlarge': facts('A100', 8, 96, 1152, 8000),
  'p4de.24xlarge': facts('A100-80GB', 8, 96, 1152, 8000),
  'p5.4xlarge': facts('H100', 1, 16, 256, 3840),
  'p5.48xlarge': facts('H100', 8, 192, 2048, 30720),
  'p5en.48xlarge': facts('H200', 8, 192, 2048, 30720),
  'p6-b200.48xlarge': facts('B200', 8, 192, 2048, 30720),
} as const satisfies Record<string, GpuInstanceFacts>;

export type GpuInstanceType = keyof typeof GPU_INSTANCE_TYPES;

/** All of them, for messages and choices. */
export const GPU_INSTANCE_TYPE_NAMES = Object.keys(GPU_INSTANCE_TYPES) as GpuInstanceType[];

/** What is known of an instance type. */
export const factsOf = (type: GpuInstanceType): GpuInstanceFacts => GPU_INSTANCE_TYPES[type];

/** The compute capability of the GPUs of an instance type. */
export const computeCapabilityOf = (type: GpuInstanceType): string =>
  GPUS[GPU_INSTANCE_TYPES[type].gpu].computeCapability;
