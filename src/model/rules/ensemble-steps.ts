import type { EnsembleStep } from '../model-config';
import { didYouMean } from '../../core/nearest';
import { describe, fieldPath, formatList } from '../../core/problems';
import type { CheckedModel } from './rule';

/** An ensemble with the other models of the repository. */
export interface Ensemble {
  model: CheckedModel;
  steps: readonly EnsembleStep[];
  /** Returns the model of that name if its configuration could be read. */
  find: (name: string) => CheckedModel | undefined;
  /** Names of all model folders of the repository. */
  names: readonly string[];
}

export type EnsembleRule = (ensemble: Ensemble) => void;

const STEP = 'ensemble_scheduling.step';

const STEP_FIELDS = ['model_name', 'input_map', 'output_map'] as const;

const isEmpty = (value: string | object | undefined): boolean =>
  typeof value === 'object' ? Object.keys(value).length === 0 : !value;

/** Whether there are steps, and each has the fields that Triton requires. */
export const areComplete = (steps: readonly EnsembleStep[]): boolean =>
  steps.length > 0 && steps.every((step) => STEP_FIELDS.every((field) => !isEmpty(step[field])));

const stepsAreComplete: EnsembleRule = ({ model: { problems }, steps }) => {
  if (steps.length === 0) problems.add(STEP, 'is empty; an ensemble needs at least one step');
  steps.forEach((step, index) => {
    for (const field of STEP_FIELDS) {
      const value = step[field];
      if (isEmpty(value)) problems.add(`${STEP}[${index}].${field}`, value === undefined ? 'is missing' : 'is empty');
    }
  });
};

const modelsExist: EnsembleRule = ({ model: { problems }, steps, names }) => {
  steps.forEach(({ model_name: name, model_namespace: namespace }, index) => {
    if (!name || namespace || names.includes(name)) return;
    problems.add(`${STEP}[${index}].model_name`, `is not a model of the repository, got ${describe(name)}`, {
      allowed: formatList(names),
      hint: didYouMean(name, names),
    });
  });
};

/** Triton reads a missing model_version as 0, and no model has a version 0. */
const versionsAreServed: EnsembleRule = ({ model: { problems }, steps, find }) => {
  steps.forEach(({ model_name: name, model_version: version = 0 }, index) => {
    if (version === -1) return;
    const { versions, served } = find(name ?? '') ?? {};
    if (version > 0 && (served === undefined || served.includes(version))) return;
    const isThere = versions?.includes(version) ?? false;
    // A missing name is reported by another rule.
    const noVersion = name ? `is not a version of ${name}` : 'is not a version';
    const message = isThere ? `is not among the versions that ${name} serves` : noVersion;
    problems.add(`${STEP}[${index}].model_version`, `${message}, got ${version}`, {
      allowed: ['-1 for the newest', ...(served ?? [])].join(', '),
    });
  });
};

const noEnsembleContainsItself: EnsembleRule = ({ model, steps, find }) => {
  steps.forEach(({ model_name: first }, index) => {
    const way = wayBack(model.name, first ?? '', find, new Set());
    if (way === undefined) return;
    model.problems.add(
      `${STEP}[${index}].model_name`,
      `forms a cycle of ensembles: ${[model.name, ...way].join(' -> ')}`,
    );
  });
};

/** Returns the ensembles from `from` to `target`, both included; undefined if no path exists. */
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

/** Triton passes batches of the ensemble to each step unchanged. */
const stepsTakeTheBatch: EnsembleRule = ({ model, steps, find }) => {
  const wanted = model.config.max_batch_size ?? 0;
  steps.forEach(({ model_name: name }, index) => {
    const limit = find(name ?? '')?.config.max_batch_size ?? 0;
    if (limit === 0 || limit >= wanted) return;
    model.problems.add(
      `${STEP}[${index}].model_name`,
      `${name} accepts batches of at most ${limit}, but the ensemble accepts ${wanted}`,
      {
        hint: `set max_batch_size: ${limit} in the ensemble, or raise it in ${name}`,
      },
    );
  });
};

/** The keys of a step's maps must be tensors of the step's model, and all of its inputs must be mapped. */
const mapsNameTheModelsTensors: EnsembleRule = ({ model: { problems }, steps, find }) => {
  steps.forEach((step, index) => {
    const config = find(step.model_name ?? '')?.config;
    if (config === undefined) return;
    for (const [side, tensors, map] of [
      ['input', config.input, step.input_map],
      ['output', config.output, step.output_map],
    ] as const) {
      // Without a list, Triton reads the tensors from the artifact.
      if (tensors === undefined || map === undefined) continue;
      const names = tensors.map(({ name }) => name ?? '');
      for (const key of Object.keys(map)) {
        if (names.includes(key)) continue;
        problems.add(fieldPath(`${STEP}[${index}].${side}_map`, key), `is not an ${side} of ${step.model_name}`, {
          allowed: names.join(', '),
          hint: didYouMean(key, names),
        });
      }
      // A key that is no input was probably meant for an input that is not mapped, so only the key is reported.
      if (side === 'output' || Object.keys(map).some((key) => !names.includes(key))) continue;
      for (const { name = '', optional } of tensors) {
        if (optional || Object.hasOwn(map, name)) continue;
        problems.add(`${STEP}[${index}].input_map`, `does not map the input ${describe(name)} of ${step.model_name}`);
      }
    }
  });
};

/** Rules for each step of an ensemble by itself. */
export const stepRules: readonly EnsembleRule[] = [
  stepsAreComplete,
  modelsExist,
  versionsAreServed,
  noEnsembleContainsItself,
  stepsTakeTheBatch,
  mapsNameTheModelsTensors,
];
