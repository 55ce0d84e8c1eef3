import type { Problem } from '../errors';
import type { RepositoryModel } from './repository';

/** How often a backend holds the bytes of a model's files in main memory. */
interface Copies {
  /** While an instance is loaded. */
  loading: number;
  /** Afterwards, for each instance on a CPU. */
  loaded: number;
}

/**
 * libtorch reads the file into a string, copies that into a stream, and makes tensors of it (pytorch_backend, model_state.cc).
 * ONNX Runtime holds the message that it reads, and its own tensors. TensorRT reads the plan, and sends it to the GPU.
 */
const COPIES: Readonly<Record<string, Copies>> = {
  pytorch_libtorch: { loading: 3, loaded: 1 },
  onnxruntime_onnx: { loading: 2, loaded: 1 },
  tensorrt_plan: { loading: 1, loaded: 0 },
};
const OF_OTHERS: Copies = { loading: 1, loaded: 1 };

/** Bytes that weights take. What the layers of a network hold between them, and the server itself, are not in it. */
export interface WeightMemory {
  /** On each GPU, where all instances that may run there do. */
  gpu: number;
  /** Main memory where instances run on a GPU if they may. */
  main: number;
  /** Main memory at most, while all models are loaded side by side. */
  loading: number;
}

/** Adds up the weights of the served versions over all instances. */
export function weightMemory(models: readonly RepositoryModel[]): WeightMemory {
  const sum = { gpu: 0, main: 0, loading: 0 };
  for (const { platform, config, versions, served } of models) {
    const { loading, loaded } = COPIES[platform] ?? OF_OTHERS;
    const bytes = versions
      .filter(({ version }) => served.includes(version))
      .flatMap(({ files }) => files)
      .reduce((total, file) => total + file.bytes, 0);
    for (const { kind, count = 1 } of config.instance_group ?? [{}]) {
      const isOnGpu = kind !== 'KIND_CPU' && Object.hasOwn(COPIES, platform);
      if (isOnGpu) sum.gpu += count * bytes;
      else sum.main += count * loaded * bytes;
      sum.loading += count * loading * bytes;
    }
  }
  return sum;
}

const GIB = 2 ** 30;

/** Main memory of a pod where a stack does not set `resources.memoryGiB`. */
const POD_GIB = 8;

/** A hint where the models do not fit into a pod while they are loaded. */
export function memoryAdvice(models: readonly RepositoryModel[]): Problem[] {
  const { loading } = weightMemory(models);
  if (loading <= POD_GIB * GIB) return [];
  return [
    {
      file: 'all models',
      message: `take up to ${(loading / GIB).toFixed(1)} GiB of main memory while they are loaded side by side; a pod has ${POD_GIB} GiB unless the stack sets resources.memoryGiB`,
      hint: 'raise it, lower instance_group.count, or have models loaded one by one: extraArguments with --model-load-thread-count=1',
    },
  ];
}
