/** Properties of a GPU. */
interface GpuFacts {
  /** CUDA compute capability. A TensorRT plan runs only on the compute capability that it was built for. */
  computeCapability: string;
  /** Memory according to the data sheet, in 10^9 bytes. Drivers report slightly less or more. */
  memoryGB: number;
}

const GPUS = {
  T4: { computeCapability: '7.5', memoryGB: 16 },
  A10G: { computeCapability: '8.6', memoryGB: 24 },
  L4: { computeCapability: '8.9', memoryGB: 24 },
  L40S: { computeCapability: '8.9', memoryGB: 48 },
  A100: { computeCapability: '8.0', memoryGB: 40 },
  'A100-80GB': { computeCapability: '8.0', memoryGB: 80 },
  H100: { computeCapability: '9.0', memoryGB: 80 },
  H200: { computeCapability: '9.0', memoryGB: 141 },
  B200: { computeCapability: '10.0', memoryGB: 180 },
} as const satisfies Record<string, GpuFacts>;

export type GpuModel = keyof typeof GPUS;

/** Properties of an EC2 instance type with GPUs. */
export interface GpuInstanceFacts {
  gpu: GpuModel;
  gpus: number;
  vcpus: number;
  memoryGiB: number;
}

const facts = (gpu: GpuModel, gpus: number, vcpus: number, memoryGiB: number): GpuInstanceFacts => ({
  gpu,
  gpus,
  vcpus,
  memoryGiB,
});

/** The x86-64 instance types that pools may use. A new row needs a price in prices.ts; without it compilation fails. */
export const GPU_INSTANCE_TYPES = {
  'g4dn.xlarge': facts('T4', 1, 4, 16),
  'g4dn.2xlarge': facts('T4', 1, 8, 32),
  'g4dn.4xlarge': facts('T4', 1, 16, 64),
  'g4dn.8xlarge': facts('T4', 1, 32, 128),
  'g4dn.12xlarge': facts('T4', 4, 48, 192),
  'g4dn.16xlarge': facts('T4', 1, 64, 256),
  'g5.xlarge': facts('A10G', 1, 4, 16),
  'g5.2xlarge': facts('A10G', 1, 8, 32),
  'g5.4xlarge': facts('A10G', 1, 16, 64),
  'g5.8xlarge': facts('A10G', 1, 32, 128),
  'g5.12xlarge': facts('A10G', 4, 48, 192),
  'g5.16xlarge': facts('A10G', 1, 64, 256),
  'g5.24xlarge': facts('A10G', 4, 96, 384),
  'g5.48xlarge': facts('A10G', 8, 192, 768),
  'g6.xlarge': facts('L4', 1, 4, 16),
  'g6.2xlarge': facts('L4', 1, 8, 32),
  'g6.4xlarge': facts('L4', 1, 16, 64),
  'g6.8xlarge': facts('L4', 1, 32, 128),
  'g6.12xlarge': facts('L4', 4, 48, 192),
  'g6.16xlarge': facts('L4', 1, 64, 256),
  'g6.24xlarge': facts('L4', 4, 96, 384),
  'g6.48xlarge': facts('L4', 8, 192, 768),
  'g6e.xlarge': facts('L40S', 1, 4, 32),
  'g6e.2xlarge': facts('L40S', 1, 8, 64),
  'g6e.4xlarge': facts('L40S', 1, 16, 128),
  'g6e.8xlarge': facts('L40S', 1, 32, 256),
  'g6e.12xlarge': facts('L40S', 4, 48, 384),
  'g6e.16xlarge': facts('L40S', 1, 64, 512),
  'g6e.24xlarge': facts('L40S', 4, 96, 768),
  'g6e.48xlarge': facts('L40S', 8, 192, 1536),
  'p4d.24xlarge': facts('A100', 8, 96, 1152),
  'p4de.24xlarge': facts('A100-80GB', 8, 96, 1152),
  'p5.4xlarge': facts('H100', 1, 16, 256),
  'p5.48xlarge': facts('H100', 8, 192, 2048),
  'p5en.48xlarge': facts('H200', 8, 192, 2048),
  'p6-b200.48xlarge': facts('B200', 8, 192, 2048),
} as const satisfies Record<string, GpuInstanceFacts>;

export type GpuInstanceType = keyof typeof GPU_INSTANCE_TYPES;

export const GPU_INSTANCE_TYPE_NAMES = Object.keys(GPU_INSTANCE_TYPES) as GpuInstanceType[];

export const getFacts = (type: GpuInstanceType): GpuInstanceFacts => GPU_INSTANCE_TYPES[type];

export const getComputeCapability = (type: GpuInstanceType): string => GPUS[getFacts(type).gpu].computeCapability;

/** Bytes of memory of each GPU of an instance type. */
export const getGpuMemory = (type: GpuInstanceType): number => GPUS[getFacts(type).gpu].memoryGB * 1e9;
