import type { EnsembleStep, TensorConfig } from '../model-config';
import { didYouMean } from '../../core/nearest';
import { describe, fieldPath } from '../../core/problems';
import type { Ensemble, EnsembleRule } from './ensemble-steps';

const STEP = 'ensemble_scheduling.step';

/** A place where an ensemble tensor is written or read. */
interface End {
  field: string;
  /** For messages: `output "output__0" of resnet`. */
  who: string;
  writes: boolean;
  /** Undefined if the backend completes the tensor. */
  type?: string;
  dims?: readonly number[];
  /** Whether a batch axis precedes `dims`. */
  batched: boolean;
}

/** The ends of each ensemble tensor, in the order in which Triton visits them. */
function flow({ model, steps, find }: Ensemble): Map<string, End[]> {
  const tensors = new Map<string, End[]>();
  const put = (tensor: string, end: Omit<End, 'type' | 'dims'>, facts?: TensorConfig, dims = facts?.dims): void => {
    tensors.set(tensor, [...(tensors.get(tensor) ?? []), { ...end, type: facts?.data_type, dims }]);
  };
  const batched = (model.config.max_batch_size ?? 0) > 0;
  for (const [side, who, writes] of [
    // The client writes the ensemble's inputs.
    ['input', `the ensemble's input`, true],
    ['output', `the ensemble's output`, false],
  ] as const) {
    (model.config[side] ?? []).forEach((tensor, index) => {
      // Steps exchange tensors in the shape that clients see; only the ensemble's own reshape counts.
      const dims = tensor.reshape === undefined ? tensor.dims : (tensor.reshape.shape ?? []);
      put(tensor.name ?? '', { field: `${side}[${index}]`, who, writes, batched }, tensor, dims);
    });
  }
  steps.forEach((step, index) => {
    const config = find(step.model_name ?? '')?.config;
    for (const [side, map, writes] of sides(step)) {
      for (const [name, tensor] of Object.entries(map)) {
        const field = fieldPath(`${STEP}[${index}].${side}_map`, name);
        const who = `${side} ${describe(name)} of ${step.model_name}`;
        const facts = config?.[side]?.find((one) => one.name === name);
        put(tensor, { field, who, writes, batched: (config?.max_batch_size ?? 0) > 0 }, facts);
      }
    }
  });
  return tensors;
}

const sides = ({ input_map = {}, output_map = {} }: EnsembleStep) =>
  [
    ['input', input_map, false],
    ['output', output_map, true],
  ] as const;

const getWriters = (ends: readonly End[]): End[] => ends.filter(({ writes }) => writes);
const getReaders = (ends: readonly End[]): End[] => ends.filter(({ writes }) => !writes);

const tensorsHaveOneWriter: EnsembleRule = (ensemble) => {
  for (const [tensor, ends] of flow(ensemble)) {
    const [first, ...others] = getWriters(ends);
    for (const { field } of others) {
      ensemble.model.problems.add(field, `writes ${describe(tensor)}, which ${first?.who} already writes`);
    }
  }
};

const tensorsAreWritten: EnsembleRule = (ensemble) => {
  const tensors = flow(ensemble);
  const written = [...tensors.keys()].filter((tensor) => getWriters(tensors.get(tensor) ?? []).length > 0);
  for (const [tensor, ends] of tensors) {
    if (written.includes(tensor)) continue;
    for (const { field } of ends) {
      ensemble.model.problems.add(field, `reads ${describe(tensor)}, which neither a client nor a step writes`, {
        allowed: written.join(', '),
        hint: didYouMean(tensor, written),
      });
    }
  }
};

const tensorsAreRead: EnsembleRule = (ensemble) => {
  const tensors = [...flow(ensemble)];
  const unwritten = tensors.filter(([, ends]) => getWriters(ends).length === 0).map(([tensor]) => tensor);
  const read = tensors.filter(([, ends]) => getReaders(ends).length > 0).map(([tensor]) => tensor);
  for (const [tensor, ends] of tensors) {
    // A name that is misspelt by its writer has been reported for its reader.
    if (read.includes(tensor) || didYouMean(tensor, unwritten) !== undefined) continue;
    for (const { field } of ends) {
      ensemble.model.problems.add(field, `writes ${describe(tensor)}, which no step and no output reads`, {
        hint: didYouMean(tensor, read) ?? 'remove the entry',
      });
    }
  }
};

/** Triton ignores the order of steps in the file. Steps that wait for each other never run. */
const stepsDoNotWaitForEachOther: EnsembleRule = (ensemble) => {
  const { model, steps } = ensemble;
  // A tensor without a writer is reported by another rule and counts as ready here.
  const written = new Set(steps.flatMap((step) => Object.values(step.output_map ?? {})));
  const ready = (tensor: string): boolean => !written.has(tensor);
  let waiting = steps.map((step, index) => ({ step, index }));
  for (;;) {
    const runnable = waiting.filter(({ step }) => Object.values(step.input_map ?? {}).every(ready));
    if (runnable.length === 0) break;
    for (const { step } of runnable) Object.values(step.output_map ?? {}).forEach((tensor) => written.delete(tensor));
    waiting = waiting.filter((one) => !runnable.includes(one));
  }
  for (const { step, index } of waiting) {
    const missing = Object.values(step.input_map ?? {}).filter((tensor) => !ready(tensor));
    model.problems.add(`${STEP}[${index}].input_map`, `never runs, because it waits for ${missing.join(', ')}`, {
      hint: 'break the cycle: steps that wait for each other never start',
    });
  }
};

/**
 * Triton compares each end of a tensor with the first end that it visits. We also compare each reader with the writer.
 * If the first end accepts any size, a mismatch would otherwise show only when requests fail.
 */
const typesAndShapesFit: EnsembleRule = (ensemble) => {
  for (const [tensor, ends] of flow(ensemble)) {
    const [first] = ends;
    const [writer] = getWriters(ends);
    if (first === undefined || writer === undefined) continue;
    for (const end of ends) {
      if (!end.writes) compare(ensemble, tensor, writer, end);
      // Several writers are reported by another rule.
      if (end !== first && !end.writes && !first.writes) compare(ensemble, tensor, first, end);
    }
  }
};

function compare({ model: { problems } }: Ensemble, tensor: string, a: End, b: End): void {
  const from = a.writes ? 'from' : 'for';
  const say = (one: string, other: string): void => {
    problems.add(b.field, `${describe(tensor)} is ${one} ${from} ${a.who}, but ${other} for ${b.who}`);
  };
  if (a.type !== undefined && b.type !== undefined && a.type !== b.type) say(a.type, b.type);
  if (!shapesFit(a, b)) say(shape(a), shape(b));
}

/** Compares as Triton does: the sizes must be equal with or without batch axes, and -1 equals any size. */
function shapesFit(a: End, b: End): boolean {
  if (a.dims === undefined || b.dims === undefined) return true;
  return sameSizes(a.dims, b.dims) || sameSizes(fullDims(a), fullDims(b));
}

const fullDims = ({ dims = [], batched }: End): readonly number[] => (batched ? [-1, ...dims] : dims);

const sameSizes = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((size, axis) => size === -1 || b[axis] === -1 || size === b[axis]);

const shape = (one: End): string => `[${fullDims(one).join(', ')}]`;

/** Rules for the tensors that steps exchange. */
export const flowRules: readonly EnsembleRule[] = [
  tensorsHaveOneWriter,
  tensorsAreWritten,
  tensorsAreRead,
  stepsDoNotWaitForEachOther,
  typesAndShapesFit,
];
