import { formatProblem, UserError, type Problem } from '../core/errors';
import { readRepository, stepModels, type RepositoryModel, type Selection } from '../model';

/** A model that `npm run local` was to serve and could not. */
export interface FailedModel {
  name: string;
  /** On one line. */
  reason: string;
  /** The rest of it, on lines of their own. */
  details: string;
  /** Of an ensemble: the model that it needs, and that failed. */
  needs?: string;
}

/** Models that validate, and those that do not. */
export interface SoundModels {
  models: RepositoryModel[];
  added: string[];
  failed: FailedModel[];
}

/**
 * Reads the models of a selection; those with problems, and ensembles of such models, are left out.
 * @throws UserError with every problem when one is of no single model, such as a name that is unknown
 */
export async function readSoundModels(repository: string, selection: Selection): Promise<SoundModels> {
  const { models, problems, added, names } = await readRepository(repository, selection);
  if (problems.length === 0) return { models, added, failed: [] };
  const { models: asked = names, exclude = [], artifacts = true } = selection;
  const unknown = [...asked, ...exclude].some((name) => !names.includes(name));
  const broken = unknown ? [] : await readBroken(repository, asked, selection);
  const failed = broken.map(({ name, problems: own, steps }): FailedModel => {
    // Problems of a step are told with that model.
    const needs = steps.find((step) => broken.some((other) => other.name === step));
    return needs === undefined ? failedModel(name, own) : failedWith(name, needs);
  });
  if (failed.length === 0) throw new UserError(`${repository} is not ready to be served`, { problems });
  const sound = asked.filter((name) => !exclude.includes(name) && !failed.some((one) => one.name === name));
  if (sound.length === 0) return { models: [], added: [], failed };
  const read = await readRepository(repository, { models: sound, exclude, artifacts });
  return { models: read.models, added: read.added, failed };
}

interface BrokenModel {
  name: string;
  problems: readonly Problem[];
  /** The models that it needs. */
  steps: string[];
}

async function readBroken(
  repository: string,
  names: readonly string[],
  { exclude = [], artifacts = true }: Selection,
): Promise<BrokenModel[]> {
  const broken: BrokenModel[] = [];
  for (const name of names.filter((one) => !exclude.includes(one))) {
    const { models, problems } = await readRepository(repository, { models: [name], exclude, artifacts });
    const config = models.find((model) => model.name === name)?.config;
    if (problems.length > 0) broken.push({ name, problems, steps: config === undefined ? [] : stepModels(config) });
  }
  return broken;
}

/** An ensemble of a model that failed. */
export function failedWith(name: string, needs: string): FailedModel {
  const reason = `needs ${needs}, which failed`;
  return { name, reason, details: reason, needs };
}

/** @param problems at least one */
export function failedModel(name: string, problems: readonly Problem[]): FailedModel {
  const [first] = problems;
  const field = first?.field === undefined ? '' : `${first.field}: `;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
  const [line = ''] = `${field}${first?.message ?? ''}`.split('\n');
  return { name, reason: `${line}${more}`, details: problems.map(formatProblem).join('\n') };
}

/** The models that failed and the ensembles that cannot be served without them. */
export function withDependents(failed: readonly FailedModel[], models: readonly RepositoryModel[]): FailedModel[] {
  const all = [...failed];
  for (const one of all) {
    for (const { name, config } of models) {
      if (!stepModels(config).includes(one.name) || all.some((other) => other.name === name)) continue;
      all.push(failedWith(name, one.name));
    }
  }
  return all;
}
