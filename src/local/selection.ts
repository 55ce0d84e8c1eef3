import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { REQUIREMENTS_FILE, requiresNumpy2 } from '../model/requirements';
import type { RepositoryModel } from '../model';
import { addEnsembles, type FailedModel, type ValidModels } from './valid-models';

/** The models that `npm run local` serves, and the reasons why it does not serve others. */
export interface LocalSelection {
  /** Ordered by name, including the models that ensembles need. */
  served: RepositoryModel[];
  notServed: { model: RepositoryModel; reason: string }[];
  /** Models with problems. */
  failed: FailedModel[];
}

/** Available backends: Triton's own python backend, and ours that are based on it (python/backends). */
const LOCAL_PLATFORMS = ['pytorch_libtorch', 'torch_aoti', 'onnxruntime_onnx', 'ensemble', 'python'];

/** Reasons for platforms that need a GPU or a container. */
const REASONS: Record<string, string> = {
  tensorrt_plan: 'a TensorRT plan runs only on the GPU type that built it',
};

/** Features that the local replacements for libtorch and ONNX Runtime lack. docs/local.md lists more differences. */
const LACKS: [reason: string, lacks: (model: RepositoryModel) => boolean][] = [
  // Tensors are passed as DLPack, which has no strings.
  [
    'it has string inputs, which the local replacement for its backend does not support',
    ({ config }) => (config.input ?? []).some(({ data_type: type }) => type === 'TYPE_STRING'),
  ],
  // Triton provides state only to backends of its C interface.
  [
    'it keeps state between requests (sequence_batching.state), which the local replacement for its backend does not support',
    ({ config }) => (config.sequence_batching?.state ?? []).length > 0,
  ],
  [
    'it has ragged batches or batch inputs and outputs, which the local replacement for its backend does not support',
    ({ config: { input = [], batch_input: more = [], batch_output: results = [] } }) =>
      more.length + results.length > 0 || input.some(({ allow_ragged_batch: isRagged }) => isRagged === true),
  ],
  [
    'its configuration lacks inputs or outputs, and the local replacement for its backend does not read them from the model file',
    ({ config }) => (config.input ?? []).length === 0 || (config.output ?? []).length === 0,
  ],
];

const NUMPY_REASON = `its ${REQUIREMENTS_FILE} requires NumPy 2, but the local server (Triton 2.51) supports only NumPy 1`;

/**
 * Separates the models that cannot be served here, of which only the configurations need to be read. That is no failure.
 * An ensemble that needs such a model is not served either.
 * @throws UserError if no model is left and none failed
 */
export function selectModels({ models, failed }: ValidModels): LocalSelection {
  const reasons = new Map<string, string>();
  for (const model of models) {
    const lack = lackFor(model);
    if (!LOCAL_PLATFORMS.includes(model.platform)) reasons.set(model.name, reasonFor(model));
    else if (lack !== undefined) reasons.set(model.name, lack);
    else if (needsNumpy2(model)) reasons.set(model.name, NUMPY_REASON);
  }
  addEnsembles(reasons, models, (_, needs) => `it needs ${needs}, which is not served here`);
  if (reasons.size === models.length && failed.length === 0) {
    const why = [...reasons].map(([name, reason]) => `${name}: ${reason}`);
    throw new UserError(`none of these models can be served here\n  ${why.join('\n  ')}`);
  }
  return {
    served: models.filter(({ name }) => !reasons.has(name)),
    notServed: models
      .filter(({ name }) => reasons.has(name))
      .map((model) => ({ model, reason: reasons.get(model.name) ?? '' })),
    failed,
  };
}

/** Ensembles are skipped, because their steps read the inputs. Triton's own python backend lacks no feature. */
function lackFor(model: RepositoryModel): string | undefined {
  if (model.platform === 'ensemble' || model.platform === 'python') return undefined;
  return LACKS.find(([, lacks]) => lacks(model))?.[0];
}

function needsNumpy2({ platform, directory }: RepositoryModel): boolean {
  const file = join(directory, REQUIREMENTS_FILE);
  return platform === 'python' && existsSync(file) && requiresNumpy2(readFileSync(file, 'utf8'));
}

const reasonFor = ({ platform }: RepositoryModel): string =>
  REASONS[platform] ?? `this machine has no backend for ${platform}`;
