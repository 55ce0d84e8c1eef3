import type { Problem } from '../core/errors';
import { didYouMean } from '../core/nearest';
import { describe, formatList } from '../core/problems';
import { comparesOnlyShapes, GOLDEN_FOLDER } from './golden/request';
import { BACKENDS } from './platforms';
import type { RepositoryModel } from './repository';

/**
 * Settings that slow requests down, and golden requests that verify too little. `npm run validate` prints them; they
 * are not problems.
 */
export function adviceFor(model: RepositoryModel): Problem[] {
  return [...misspeltBackend(model), ...unjoinedRequests(model), ...missingWarmUp(model), ...emptyAnswers(model)];
}

/** Reports a backend whose name is almost that of Triton's. Triton accepts any name, because backends can be added. */
function misspeltBackend({ name, config: { backend = '' } }: RepositoryModel): Problem[] {
  const hint =
    backend === '' || Object.hasOwn(BACKENDS, backend) ? undefined : didYouMean(backend, Object.keys(BACKENDS));
  if (hint === undefined) return [];
  return [{ file: name, field: 'backend', message: `is not a backend of Triton, got ${describe(backend)}`, hint }];
}

/** Reports golden requests of which only data types and shapes can be compared. */
function emptyAnswers({ name, golden }: RepositoryModel): Problem[] {
  return golden.filter(comparesOnlyShapes).map((request) => ({
    file: `${name}/${GOLDEN_FOLDER}/${request.name}.json`,
    message: 'expects only outputs without elements, so no value of the answer is compared',
    hint: 'add a golden request for which the model finds something',
  }));
}

/** Reports batches that no batcher makes. The ONNX Runtime and TensorRT backends add dynamic_batching themselves. */
function unjoinedRequests({ name, platform, config }: RepositoryModel): Problem[] {
  const { max_batch_size: largest = 0, dynamic_batching: dynamic, sequence_batching: sequence } = config;
  const isAdded = !['pytorch_libtorch', 'python'].includes(platform);
  if (isAdded || largest <= 1 || dynamic !== undefined || sequence !== undefined) return [];
  return [
    {
      file: name,
      field: 'dynamic_batching',
      message: `is missing, so requests that wait at the same time are never joined, although max_batch_size is ${largest}`,
      hint: 'add dynamic_batching: {}, or set max_batch_size: 1 if each request is a batch of its own',
    },
  ];
}

/**
 * Reports shapes without warm-up. TorchScript optimises a network again in the first two calls of each shape, and a
 * batcher makes batches of every size up to max_batch_size.
 */
function missingWarmUp({ name, platform, config }: RepositoryModel): Problem[] {
  const { max_batch_size: largest = 0, model_warmup: samples = [], parameters } = config;
  const optimizes = parameters?.['DISABLE_OPTIMIZED_EXECUTION']?.string_value?.toLowerCase() !== 'true';
  if (platform !== 'pytorch_libtorch' || !optimizes) return [];
  const warm = new Set(samples.filter(({ count = 0 }) => count !== 1).map(({ batch_size: size }) => size));
  const sizes = config.dynamic_batching === undefined ? 1 : Math.max(1, largest);
  const cold = Array.from({ length: sizes }, (_, index) => index + 1).filter((size) => !warm.has(size));
  // Without a batcher, clients decide on the sizes.
  if (cold.length === 0 || (sizes === 1 && warm.size > 0)) return [];
  return [
    {
      file: name,
      field: 'model_warmup',
      message: `lacks two calls${sizes === 1 ? '' : ` of batch size ${formatList(cold.map(String))}`}, so the first requests of ${sizes === 1 ? 'each shape' : 'that size'} wait for TorchScript's optimizer`,
      hint: 'add one sample with count: 2 for each batch size, as in model-repo/resnet/model.yaml, or set DISABLE_OPTIMIZED_EXECUTION if shapes vary',
    },
  ];
}
