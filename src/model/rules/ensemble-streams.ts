import type { ModelConfig } from '../model-config';
import { describe } from '../../core/problems';
import type { Ensemble, EnsembleRule } from './ensemble-steps';

type Find = (name: string) => ModelConfig | undefined;

/**
 * A decoupled model answers a request any number of times. Tensors from one decoupled model cannot be joined with other
 * tensors, in a step or among the outputs, because Triton would not know which answers belong together.
 */
export const answersBelongTogether: EnsembleRule = (ensemble) => {
  const { model } = ensemble;
  const streams = getStreams(model.config, findConfig(ensemble), new Set());
  for (const { field, tensors } of joints(model.config)) {
    const [first, ...others] = tensors.filter((tensor) => streams.has(tensor));
    const other = others.find((tensor) => first !== undefined && streams.get(tensor) !== streams.get(first));
    if (first === undefined || other === undefined) continue;
    const message = `joins ${describe(first)} and ${describe(other)}, which do not come from the same decoupled model`;
    model.problems.add(field, message);
  }
};

const findConfig =
  ({ find }: Ensemble): Find =>
  (name) =>
    find(name)?.config;

/** The places that join tensors: the inputs of each step, and the outputs of the ensemble. */
function joints(config: ModelConfig): { field: string; tensors: string[] }[] {
  const steps = (config.ensemble_scheduling?.step ?? []).map(({ input_map: map = {} }, index) => ({
    field: `ensemble_scheduling.step[${index}].input_map`,
    tensors: Object.values(map),
  }));
  return [...steps, { field: 'output', tensors: (config.output ?? []).map(({ name = '' }) => name) }];
}

/**
 * Ensemble tensor -> number of the last decoupled step before the tensor, 0 for none.
 * @param above names of the ensembles that contain this one; they stop the recursion, and another rule reports an
 *   ensemble that contains itself
 */
function getStreams(config: ModelConfig, find: Find, above: ReadonlySet<string>): Map<string, number> {
  const streams = new Map((config.input ?? []).map(({ name = '' }): [string, number] => [name, 0]));
  let waiting = (config.ensemble_scheduling?.step ?? []).map((step, index) => ({ ...step, number: index + 1 }));
  for (;;) {
    const next = waiting.find(({ input_map: map = {} }) => Object.values(map).every((tensor) => streams.has(tensor)));
    if (next === undefined) return streams;
    waiting = waiting.filter((step) => step !== next);
    const { model_name: name = '', input_map: inputs = {}, output_map: outputs = {}, number } = next;
    const part = find(name);
    const before = streams.get(Object.values(inputs)[0] ?? '') ?? 0;
    const stream = part !== undefined && isDecoupled(part, find, new Set(above).add(config.name)) ? number : before;
    for (const tensor of Object.values(outputs)) if (!streams.has(tensor)) streams.set(tensor, stream);
  }
}

/** For an ensemble, Triton derives the answer from the steps and ignores the ensemble's own setting. */
function isDecoupled(config: ModelConfig, find: Find, above: ReadonlySet<string>): boolean {
  if (config.ensemble_scheduling === undefined) return config.model_transaction_policy?.decoupled === true;
  if (above.has(config.name)) return false;
  return [...getStreams(config, find, above).values()].some((stream) => stream > 0);
}
