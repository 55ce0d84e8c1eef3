import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Problem } from '../core/errors';
import { isTraceRecord } from './paths';
import type { RepositoryModel } from './repository';
import type { ModelVersion } from './versions';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** Memory of a backend, measured on a CPU with the local server unless a source is named. */
interface Backend {
  /** Interpreter and libraries of each local process. Each instance has its own process. */
  process: number;
  /** Pages of libraries that all processes of the backend share. */
  libraries: number;
  /** Copies of the weights in main memory while a model is loaded, by a local process and by Triton's own backend. */
  copies: { local: number; pod: number };
  /** Whether instances may run on a GPU. */
  usesGpu: boolean;
}

/**
 * Memory by backend. `copies.pod` follows the code of Triton's own backends. libtorch reads the file into a string,
 * copies the string into a stream, and creates tensors from the stream (pytorch_backend, model_state.cc:226). ONNX
 * Runtime holds the parsed message and its own tensors. TensorRT reads the plan and sends it to the GPU.
 */
const BACKENDS: Readonly<Record<string, Backend>> = {
  pytorch_libtorch: { process: 292 * MIB, libraries: 255 * MIB, copies: { local: 1, pod: 3 }, usesGpu: true },
  // Measured with an exported program, which imports more of PyTorch. Triton extracts a compiled one to a disk.
  torch_aoti: { process: 380 * MIB, libraries: 255 * MIB, copies: { local: 1, pod: 2 }, usesGpu: true },
  onnxruntime_onnx: { process: 22 * MIB, libraries: 37 * MIB, copies: { local: 2, pod: 2 }, usesGpu: true },
  tensorrt_plan: { process: 0, libraries: 0, copies: { local: 0, pod: 1 }, usesGpu: true },
};
/** A Python model: the interpreter with NumPy. Memory for its imports and its computation is unknown. */
const OF_OTHERS: Backend = { process: 30 * MIB, libraries: 20 * MIB, copies: { local: 1, pod: 1 }, usesGpu: false };

/** Memory of the server without models. */
const SERVER = 45 * MIB;

/**
 * Memory that a process takes for each byte of live tensors, including scratch memory of kernels and freed memory that
 * the process keeps. Measured: 3.0 to 4.6 on a CPU, 2.2 to 3.7 on an H100 if tensors take at least 70 MiB.
 */
const PER_LIVE_BYTE = 4;

/**
 * Memory of CUDA. Its context takes 621 MiB on each GPU and 123 MiB of main memory, measured on an H100 with PyTorch
 * 2.11 and CUDA 13.0 (docs/benchmarks.md). On an RTX 6000 Ada it took 426 MiB (unslothai/unsloth-zoo pull request 1053).
 * cuBLAS has a workspace of up to 32 MiB for each instance (pytorch pull request 120925).
 */
const CUDA = { gpu: 621 * MIB, main: 123 * MIB, workspace: 32 * MIB };

/** Peak memory of a model in bytes, without the memory that its backend needs once. */
export interface ModelMemory {
  name: string;
  /** Size of the served versions. */
  weights: number;
  /** Live tensors of one instance for the largest inputs that the trace checked; undefined without a trace record. */
  activations: number | undefined;
  /** Total of all processes of the local server. */
  local: number;
  /** Main memory of a pod that loads models concurrently. */
  main: number;
  /** Memory on each GPU of a pod, if all instances that may run on this GPU do. */
  gpu: number;
}

/** Peak memory of a server in bytes. */
export interface ServerMemory {
  models: ModelMemory[];
  local: number;
  main: number;
  gpu: number;
}

/**
 * Predicts the peak memory of a server with these models.
 * @param hasGpu whether pods have a GPU, which KIND_AUTO then uses
 */
export function serverMemory(models: readonly RepositoryModel[], hasGpu = true): ServerMemory {
  const counted = models.filter(({ platform }) => platform !== 'ensemble');
  const each = counted.map((model) => modelMemory(model, hasGpu));
  const backends = [...new Set(counted.map(getBackend))];
  const sum = (key: 'local' | 'main' | 'gpu'): number => each.reduce((total, one) => total + one[key], 0);
  const libraries = backends.reduce((total, backend) => total + backend.libraries, 0);
  // Triton's own backends are libraries of the server, so their process memory is counted once.
  const inServer = backends.reduce((total, { usesGpu, process }) => total + (usesGpu ? process : 0), 0);
  const gpu = sum('gpu');
  return {
    models: each,
    local: SERVER + libraries + sum('local'),
    main: SERVER + libraries + inServer + sum('main') + (gpu > 0 ? CUDA.main : 0),
    gpu: gpu > 0 ? gpu + CUDA.gpu : 0,
  };
}

const getBackend = ({ platform }: RepositoryModel): Backend => BACKENDS[platform] ?? OF_OTHERS;

function modelMemory(model: RepositoryModel, hasGpu: boolean): ModelMemory {
  const { name, config, versions, served } = model;
  const backend = getBackend(model);
  const { copies, process, usesGpu } = backend;
  const need: ModelMemory = { name, weights: 0, activations: undefined, local: 0, main: 0, gpu: 0 };
  for (const version of versions.filter(({ version }) => served.includes(version))) {
    const weights = getWeights(version);
    const activations = getActivations(model, version);
    const working = weights + PER_LIVE_BYTE * (activations ?? 0);
    need.weights += weights;
    need.activations = activations === undefined ? need.activations : Math.max(need.activations ?? 0, activations);
    for (const { kind, count = 1 } of config.instance_group ?? [{}]) {
      // The process keeps the memory of freed copies and reuses it for activations.
      const instances = usesGpu ? 1 : count; // src/local/adapt-model.ts
      if (copies.local > 0) need.local += instances * (process + Math.max(copies.local * weights, working));
      if (hasGpu && usesGpu && kind !== 'KIND_CPU') {
        need.gpu += count * (working + CUDA.workspace);
        need.main += count * copies.pod * weights;
      } else need.main += count * ((usesGpu ? 0 : process) + Math.max(copies.pod * weights, working));
    }
  }
  return need;
}

const getWeights = ({ files }: ModelVersion): number =>
  files.filter(({ key }) => !isTraceRecord(key)).reduce((total, { bytes }) => total + bytes, 0);

/** Reads the size of activations from the trace record; undefined if unreadable, which other commands report. */
function getActivations({ directory }: RepositoryModel, { files }: ModelVersion): number | undefined {
  const record = files.find(({ key }) => isTraceRecord(key));
  if (record === undefined) return undefined;
  try {
    const text = readFileSync(path.join(directory, record.key), 'utf8');
    const bytes = (JSON.parse(text) as { activation_bytes?: unknown } | null)?.activation_bytes;
    return typeof bytes === 'number' && bytes >= 0 ? bytes : undefined;
  } catch {
    return undefined;
  }
}

export const formatGiB = (bytes: number): string => `${(bytes / GIB).toFixed(1)} GiB`;

/** The models that need the most memory, for a message: `gfpgan 3.1 GiB, bert 0.5 GiB`. */
function largest({ models }: ServerMemory, key: 'main' | 'gpu'): string {
  const sorted = models.filter((model) => model[key] > 0).sort((a, b) => b[key] - a[key]);
  const named = sorted.slice(0, 3).map((model) => `${model.name} ${formatGiB(model[key])}`);
  return [...named, ...(sorted.length > 3 ? [`${sorted.length - 3} more`] : [])].join(', ');
}

/** Describes why the models do not fit into the main memory of a pod; undefined if they fit. */
export function mainMemoryFault(memory: ServerMemory, podGiB: number): string | undefined {
  if (memory.main <= podGiB * GIB) return undefined;
  return `the models need about ${formatGiB(memory.main)} of main memory at the peak (${largest(memory, 'main')}), but a pod has ${podGiB} GiB (resources.memoryGiB)`;
}

/** Next step for `mainMemoryFault`. */
export const MAIN_MEMORY_HINT =
  'raise resources.memoryGiB, lower instance_group.count, or load models one at a time: extraArguments with --model-load-thread-count=1';

/** Describes why the models do not fit onto a GPU, with the next step; undefined if they fit. */
export function gpuMemoryFault(memory: ServerMemory, gpu: string, bytes: number): string | undefined {
  if (memory.gpu <= bytes) return undefined;
  return `the models need about ${formatGiB(memory.gpu)} of each GPU at the peak (${largest(memory, 'gpu')}), but ${gpu} has ${formatGiB(bytes)}`;
}

/** Main memory of a pod if the stack does not set `resources.memoryGiB`. */
const POD_GIB = 8;

/** Returns a hint if the models do not fit into a pod with default memory. */
export function memoryAdvice(memory: ServerMemory): Problem[] {
  const message = mainMemoryFault(memory, POD_GIB);
  return message === undefined ? [] : [{ file: 'all models', message, hint: MAIN_MEMORY_HINT }];
}
