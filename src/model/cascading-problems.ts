import type { Problem } from '../core/errors';

/**
 * Field -> fields whose rules depend on it. If the field could not be read, problems that these rules report are
 * meaningless.
 */
const DEPENDENTS: Readonly<Record<string, RegExp>> = {
  platform: /^(backend|ensemble_scheduling)\b/,
  backend: /^platform\b/,
  max_batch_size: /^(dynamic_batching|sequence_batching|model_warmup|ensemble_scheduling)\b|\.(dims|shape)$/,
  // libtorch takes the positions of inputs and of sequence controls from their names.
  input: /^(model_warmup|sequence_batching)\b/,
  sequence_batching: /^model_warmup\b|^input\[\d+\]\.name$/,
};

/**
 * Returns the problems that rules found, without those that only follow from unreadable fields.
 * @param unreadable paths of those fields
 */
export function dropCascading(problems: readonly Problem[], unreadable: readonly string[]): Problem[] {
  const items = unreadable.map((field) => field.replace(/\[\d+\]$/, ''));
  const dependents = [...new Set(unreadable.map(getTop))].flatMap((field) => DEPENDENTS[field] ?? []);
  return problems.filter(({ field }) => {
    if (field === undefined) return true;
    const follows = items.some((one) => isIn(field, one) || isIn(one, field));
    return !follows && !dependents.some((looker) => looker.test(field));
  });
}

const getTop = (field: string): string => /^\w*/.exec(field)?.[0] ?? '';

/** Whether `field` is `outer` or a part of `outer`: `input[0].name` is a part of `input`, `input_x` is not. */
const isIn = (field: string, outer: string): boolean =>
  field === outer || (/^[.[]/.test(field.slice(outer.length)) && field.startsWith(outer));
