import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { REQUIREMENTS_FILE, requiresNumpy2 } from '../model/requirements';
import { readSoundRepository, stepModels, type RepositoryModel, type Selection } from '../model';
import { displayPath } from '../model/paths';
import { readSoundModels, type FailedModel } from './sound';

/** Which models `npm run local` serves, and why not the others. */
export interface LocalSelection {
  /** By name, with what their ensembles need. */
  served: RepositoryModel[];
  notServed: { model: RepositoryModel; reason: string }[];
  /** Not asked for, but needed by an ensemble that was. */
  added: string[];
  /** Those with problems, where they are left out. */
  failed: FailedModel[];
}

/** Backends there are here: Triton's own python backend and ours on top of it (python/backends). */
const LOCAL_PLATFORMS = ['pytorch_libtorch', 'onnxruntime_onnx', 'ensemble', 'python'];

/** What a reader should know about platforms that cannot be served without a GPU or a container. */
const REASONS: Record<string, string> = {
  tensorrt_plan: 'a TensorRT plan runs only on the kind of GPU that it was built on',
};

/** What the local stand-ins for libtorch and ONNX Runtime lack: docs/testing.md has the whole comparison. */
const LACKS: [reason: string, lacks: (model: RepositoryModel) => boolean][] = [
  // Tensors reach them as DLPack, which has no strings.
  [
    'it takes strings, which the local stand-in for its backend cannot hand over',
    ({ config }) => (config.input ?? []).some(({ data_type: type }) => type === 'TYPE_STRING'),
  ],
  // Triton gives these to backends of its C interface alone.
  [
    'it keeps state between requests (sequence_batching.state), which the local stand-in for its backend cannot',
    ({ config }) => (config.sequence_batching?.state ?? []).length > 0,
  ],
  [
    'it has ragged batches or batch inputs and outputs, which the local stand-in for its backend cannot read',
    ({ config: { input = [], batch_input: more = [], batch_output: results = [] } }) =>
      more.length + results.length > 0 || input.some(({ allow_ragged_batch: isRagged }) => isRagged === true),
  ],
  [
    'its inputs and outputs are not in its configuration, and the local stand-in for its backend does not read them from the file',
    ({ config }) => (config.input ?? []).length === 0 || (config.output ?? []).length === 0,
  ],
];

const NUMPY_REASON = `its ${REQUIREMENTS_FILE} requires NumPy 2, and Triton 2.51, the local server, reads arrays of NumPy 1 only`;

/**
 * Reads the configurations, before any model is traced, and sorts out what cannot be served here. That is no failure;
 * an ensemble that needs such a model is not served either.
 * @param leaveOut models with problems are left out; without it they are an error
 * @throws UserError with every problem of the configurations
 */
export async function selectModels(
  repository: string,
  selection: Pick<Selection, 'models' | 'exclude'>,
  leaveOut = false,
): Promise<LocalSelection> {
  const configurations = { ...selection, artifacts: false };
  const { models, added, failed } = leaveOut
    ? await readSoundModels(repository, configurations)
    : { ...(await readSoundRepository(repository, configurations, 'served')), failed: [] };
  const reasons = new Map<string, string>();
  for (const model of models) {
    const lack = lackFor(model);
    if (!LOCAL_PLATFORMS.includes(model.platform)) reasons.set(model.name, reasonFor(model));
    else if (lack !== undefined) reasons.set(model.name, lack);
    else if (needsNumpy2(model)) reasons.set(model.name, NUMPY_REASON);
  }
  // Ensembles can be made of ensembles: until nothing is added any more.
  for (let before = -1; before !== reasons.size;) {
    before = reasons.size;
    for (const { name, config } of models) {
      const missing = stepModels(config).find((step) => reasons.has(step));
      if (missing !== undefined && !reasons.has(name))
        reasons.set(name, `it needs ${missing}, which is not served here`);
    }
  }
  if (reasons.size === models.length && failed.length === 0) {
    const why = [...reasons].map(([name, reason]) => `${name}: ${reason}`);
    throw new UserError(`nothing of this can be served here\n  ${why.join('\n  ')}`);
  }
  return {
    served: models.filter(({ name }) => !reasons.has(name)),
    notServed: models
      .filter(({ name }) => reasons.has(name))
      .map((model) => ({ model, reason: reasons.get(model.name) ?? '' })),
    added,
    failed,
  };
}

/** An ensemble hands its inputs on; the models that read them count. Triton's own python backend lacks none of it. */
function lackFor(model: RepositoryModel): string | undefined {
  if (model.platform === 'ensemble' || model.platform === 'python') return undefined;
  return LACKS.find(([, lacks]) => lacks(model))?.[0];
}

function needsNumpy2({ platform, directory }: RepositoryModel): boolean {
  const file = join(directory, REQUIREMENTS_FILE);
  return platform === 'python' && existsSync(file) && requiresNumpy2(readFileSync(file, 'utf8'));
}

function reasonFor({ platform, directory }: RepositoryModel): string {
  const reason = REASONS[platform] ?? `there is no backend for ${platform} on this machine`;
  const builder = join(directory, 'build-plan.sh');
  return existsSync(builder) ? `${reason}; there, run ${displayPath(builder)}` : reason;
}
