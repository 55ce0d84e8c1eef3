import { didYouMean } from '../../core/nearest';
import { describe } from '../../core/problems';
import type { CheckedModel, ModelRule } from './rule';

const BATCH_INPUT_TYPES = ['TYPE_FP32', 'TYPE_INT32'];

/** Triton makes a batch input from one source input, in one of two types. */
const batchInputsAreSound: ModelRule = (model) => {
  (model.config.batch_input ?? []).forEach(({ data_type: type, source_input: sources = [] }, index) => {
    const field = `batch_input[${index}]`;
    if (!BATCH_INPUT_TYPES.includes(type ?? '')) {
      const message = type === undefined ? 'is missing' : `is not a data type of batch inputs, got ${type}`;
      model.problems.add(`${field}.data_type`, message, { allowed: BATCH_INPUT_TYPES.join(', ') });
    }
    oneSource(model, field, sources);
  });
};

const batchOutputsAreSound: ModelRule = (model) => {
  (model.config.batch_output ?? []).forEach(({ source_input: sources = [], target_name: targets = [] }, index) => {
    const field = `batch_output[${index}]`;
    oneSource(model, field, sources);
    targets.forEach((target, place) => {
      const at = `${field}.target_name[${place}]`;
      if (targets.indexOf(target) < place) model.problems.add(at, `is listed twice, got ${describe(target)}`);
      else known(model, at, target, 'output');
    });
  });
};

function oneSource(model: CheckedModel, field: string, sources: readonly string[]): void {
  if (sources.length !== 1) {
    model.problems.add(`${field}.source_input`, `must name exactly one input, got ${sources.length}`);
    return;
  }
  known(model, `${field}.source_input[0]`, sources[0] ?? '', 'input');
}

/** Reports a tensor name that is not configured. Without a list, Triton reads the tensors from the artifact. */
function known(model: CheckedModel, field: string, name: string, side: 'input' | 'output'): void {
  const tensors = model.config[side];
  if (tensors === undefined && model.facts?.completesTensors !== false) return;
  const names = (tensors ?? []).map((tensor) => tensor.name ?? '');
  if (names.includes(name)) return;
  model.problems.add(field, `is not an ${side} of the model, got ${describe(name)}`, {
    allowed: names.join(', '),
    hint: didYouMean(name, names),
  });
}

/** Rules for tensors that Triton makes from a whole batch, for models with ragged inputs. */
export const batchIoRules: readonly ModelRule[] = [batchInputsAreSound, batchOutputsAreSound];
