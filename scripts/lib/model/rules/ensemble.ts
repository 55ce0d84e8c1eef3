import type { EnsembleStep, TensorConfig } from '../model-config';
import { didYouMean } from '../nearest';
import { describe, fieldPath } from '../problems';
import type { CheckedModel } from './rule';

/** An ensemble and the models around it. */
export interface Ensemble {
  model: CheckedModel;
  steps: readonly EnsembleStep[];
  /** The model of that name, if its configuration could be read. */
  find: (name: string) => CheckedModel | undefined;
  /** Names of all model folders of the repository. */
  names: readonly string[];
}

export type EnsembleRule = (ensemble: Ensemble) => void;

const STEP = 'ensemble_scheduling.step';

const stepsAreComplete: EnsembleRule = ({ model: { problems }, steps }) => {
  if (steps.length === 0) problems.add(STEP, 'is empty: an ensemble has at least one step');
  steps.forEach((step, index) => {
    for (const field of ['model_name', 'input_map', 'output_map'] as const) {
      const value = step[field];
      const empty = typeof value === 'object' ? Object.keys(value).length === 0 : !value;
      if (empty) problems.add(`${STEP}[${index}].${field}`, value === undefined ? 'is missing' : 'is empty');
    }
  });
};

const modelsExist: EnsembleRule = ({ model: { problems }, steps, names }) => {
  steps.forEach(({ model_name: name, model_namespace: namespace }, index) => {
    if (!name || namespace || names.includes(name)) return;
    problems.add(`${STEP}[${index}].model_name`, `is not in the repository, got ${describe(name)}`, {
      allowed: names.join(', '),
      hint: didYouMean(name, names),
    });
  });
};

/** Version 0 is what Triton reads where nothing is written, and there is none. */
const versionsExist: EnsembleRule = ({ model: { problems }, steps, find }) => {
  steps.forEach(({ model_name: name, model_version: version = 0 }, index) => {
    if (version === -1) return;
    const versions = find(name ?? '')?.versions;
    if (version > 0 && (versions === undefined || versions.includes(version))) return;
    problems.add(`${STEP}[${index}].model_version`, `is not a version of ${name}, got ${version}`, {
      allowed: ['-1 for the newest', ...(versions ?? [])].join(', '),
    });
  });
};

const noEnsembleContainsItself: EnsembleRule = ({ model, steps, find }) => {
  steps.forEach(({ model_name: first }, index) => {
    const way = wayBack(model.name, first ?? '', find, new Set());
    if (way === undefined) return;
    model.problems.add(
      `${STEP}[${index}].model_name`,
      `leads back to this ensemble: ${[model.name, ...way].join(' -> ')}`,
    );
  });
};

/** The ensembles from `from` to `target`, both ends included, if there is a way. */
function wayBack(target: string, from: string, find: Ensemble['find'], seen: Set<string>): string[] | undefined {
  if (from === target) return [target];
  if (seen.has(from)) return undefined;
  seen.add(from);
  for (const { model_name: next } of find(from)?.config.ensemble_scheduling?.step ?? []) {
    const way = wayBack(target, next ?? '', find, seen);
    if (way !== undefined) return [from, ...way];
  }
  return undefined;
}

/** Triton runs batches of the ensemble through each step as they are. */
const stepsTakeTheBatch: EnsembleRule = ({ model, steps, find }) => {
  const wanted = model.config.max_batch_size ?? 0;
  steps.forEach(({ model_name: name }, index) => {
    const limit = find(name ?? '')?.config.max_batch_size ?? 0;
    if (limit === 0 || limit >= wanted) return;
    model.problems.add(
      `${STEP}[${index}].model_name`,
      `${name} takes batches of ${limit} at most, the ensemble ${wanted}`,
      {
        hint: `set max_batch_size: ${limit} here, or more there`,
      },
    );
  });
};

/** The keys of a step's maps are the tensors of the step's model, and all of its inputs are mapped. */
const mapsNameTheModelsTensors: EnsembleRule = ({ model: { problems }, steps, find }) => {
  steps.forEach((step, index) => {
    const config = find(step.model_name ?? '')?.config;
    if (config === undefined) return;
    for (const [side, tensors, map] of [
      ['input', config.input, step.input_map],
      ['output', config.output, step.output_map],
    ] as const) {
      // Without a list Triton reads the tensors from the artifact.
      if (tensors === undefined || map === undefined) continue;
      const names = tensors.map(({ name }) => name ?? '');
      for (const key of Object.keys(map)) {
        if (names.includes(key)) continue;
        problems.add(fieldPath(`${STEP}[${index}].${side}_map`, key), `is not an ${side} of ${step.model_name}`, {
          allowed: names.join(', '),
          hint: didYouMean(key, names),
        });
      }
      for (const { name = '', optional } of tensors) {
        if (side === 'output' || optional || Object.hasOwn(map, name)) continue;
        problems.add(`${STEP}[${index}].input_map`, `does not map the input ${describe(name)} of ${step.model_name}`);
      }
    }
  });
};

/** An end of an ensemble tensor: where it is written, or where it is read. */
interface End {
  field: string;
  /** For messages: `output "output__0" of resnet`. */
  who: string;
  /** Undefined where the backend completes the tensor. */
  type?: string | undefined;
  dims?: readonly number[];
  /** Whether a batch axis goes before `dims`. */
  batched: boolean;
}

function end(field: string, who: string, tensor: TensorConfig | undefined, batched: boolean, reshaped: boolean): End {
  // Steps exchange tensors in the shape that clients see; only the ensemble's own reshape counts.
  const dims = (reshaped ? tensor?.reshape?.shape : undefined) ?? tensor?.dims;
  return { field, who, type: tensor?.data_type, batched, ...(dims === undefined ? {} : { dims }) };
}

/** Who writes and who reads each ensemble tensor. The ensemble's inputs are written by the client. */
function flow({ model, steps, find }: Ensemble): { writers: Map<string, End[]>; readers: Map<string, End[]> } {
  const writers = new Map<string, End[]>();
  const readers = new Map<string, End[]>();
  const put = (map: Map<string, End[]>, tensor: string, one: End): void => {
    map.set(tensor, [...(map.get(tensor) ?? []), one]);
  };
  // Of an ensemble without steps there is nothing more to say than that.
  if (steps.length === 0) return { writers, readers };
  const batched = (model.config.max_batch_size ?? 0) > 0;
  (model.config.input ?? []).forEach((tensor, index) => {
    put(writers, tensor.name ?? '', end(`input[${index}]`, `the ensemble's input`, tensor, batched, true));
  });
  (model.config.output ?? []).forEach((tensor, index) => {
    put(readers, tensor.name ?? '', end(`output[${index}]`, `the ensemble's output`, tensor, batched, true));
  });
  steps.forEach((step, index) => {
    const config = find(step.model_name ?? '')?.config;
    const inBatches = (config?.max_batch_size ?? 0) > 0;
    for (const [map, side, entries] of [
      [readers, 'input', step.input_map],
      [writers, 'output', step.output_map],
    ] as const) {
      for (const [name, tensor] of Object.entries(entries ?? {})) {
        const field = fieldPath(`${STEP}[${index}].${side}_map`, name);
        const facts = config?.[side]?.find((one) => one.name === name);
        put(map, tensor, end(field, `${side} ${describe(name)} of ${step.model_name}`, facts, inBatches, false));
      }
    }
  });
  return { writers, readers };
}

const tensorsHaveOneWriter: EnsembleRule = (ensemble) => {
  for (const [tensor, ends] of flow(ensemble).writers) {
    for (const { field } of ends.slice(1)) {
      ensemble.model.problems.add(field, `writes ${describe(tensor)}, which ${ends[0]?.who} writes already`);
    }
  }
};

const tensorsAreWritten: EnsembleRule = (ensemble) => {
  const { writers, readers } = flow(ensemble);
  for (const [tensor, ends] of readers) {
    if (writers.has(tensor)) continue;
    for (const { field } of ends) {
      ensemble.model.problems.add(field, `reads ${describe(tensor)}, which neither a client nor a step writes`, {
        allowed: [...writers.keys()].join(', '),
        hint: didYouMean(tensor, writers.keys()),
      });
    }
  }
};

const tensorsAreRead: EnsembleRule = (ensemble) => {
  const { writers, readers } = flow(ensemble);
  for (const [tensor, ends] of writers) {
    if (readers.has(tensor)) continue;
    for (const { field } of ends) {
      ensemble.model.problems.add(field, `writes ${describe(tensor)}, which nothing reads`, {
        hint: didYouMean(tensor, readers.keys()) ?? 'remove the entry',
      });
    }
  }
};

/** The order in which steps are written does not matter to Triton; steps that wait for each other never run. */
const stepsDoNotWaitForEachOther: EnsembleRule = (ensemble) => {
  const { model, steps } = ensemble;
  // A tensor that nobody writes is another problem: it counts as there.
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
    model.problems.add(`${STEP}[${index}].input_map`, `never runs: it waits for ${missing.join(', ')}`, {
      hint: 'steps that wait for each other cannot begin',
    });
  }
};

const typesAndShapesFit: EnsembleRule = (ensemble) => {
  const { writers, readers } = flow(ensemble);
  for (const [tensor, ends] of readers) {
    const writer = writers.get(tensor)?.[0];
    if (writer === undefined) continue;
    for (const reader of ends) {
      if (reader.type !== undefined && writer.type !== undefined && reader.type !== writer.type) {
        ensemble.model.problems.add(
          reader.field,
          `${describe(tensor)} is ${writer.type} from ${writer.who}, but ${reader.type} for ${reader.who}`,
        );
      }
      if (!shapesFit(writer, reader)) {
        ensemble.model.problems.add(
          reader.field,
          `${describe(tensor)} is ${shape(writer)} from ${writer.who}, but ${shape(reader)} for ${reader.who}`,
        );
      }
    }
  }
};

/** As Triton compares: equal with or without the batch axes, where -1 equals any size. */
function shapesFit(a: End, b: End): boolean {
  if (a.dims === undefined || b.dims === undefined) return true;
  return sameSizes(a.dims, b.dims) || sameSizes(fullDims(a), fullDims(b));
}

const fullDims = ({ dims = [], batched }: End): readonly number[] => (batched ? [-1, ...dims] : dims);

const sameSizes = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((size, axis) => size === -1 || b[axis] === -1 || size === b[axis]);

const shape = (one: End): string => `[${fullDims(one).join(', ')}]`;

/** The wiring of an ensemble. */
export const ensembleRules: readonly EnsembleRule[] = [
  stepsAreComplete,
  modelsExist,
  versionsExist,
  noEnsembleContainsItself,
  stepsTakeTheBatch,
  mapsNameTheModelsTensors,
  tensorsHaveOneWriter,
  tensorsAreWritten,
  tensorsAreRead,
  stepsDoNotWaitForEachOther,
  typesAndShapesFit,
];
