import { formatProblem, formatUserError, PartialFailureError, UserError, type Problem } from '../core/errors';
import { readRepository, stepModels, type RepositoryModel, type Selection } from '../model';

/** A model that `npm run local` should serve but cannot. */
export interface FailedModel {
  name: string;
  /** One line. */
  reason: string;
  /** The full description, with several lines. */
  details: string;
  /** The same, for an error. */
  problems: readonly Problem[];
  /** For an ensemble: the failed model that it needs. */
  needs?: string;
}

/** Valid and invalid models. */
export interface ValidModels {
  models: RepositoryModel[];
  added: string[];
  failed: FailedModel[];
}

/**
 * Reads the selected models. Leaves out models with problems, and ensembles that need them.
 * @throws UserError with all problems if one of them belongs to no single model, such as an unknown name
 */
export async function readValidModels(repository: string, selection: Selection): Promise<ValidModels> {
  const { models, problems, added, names } = await readRepository(repository, selection);
  if (problems.length === 0) return { models, added, failed: [] };
  const { models: asked = names, exclude = [], artifacts = true } = selection;
  const unknown = [...asked, ...exclude].some((name) => !names.includes(name));
  const broken = unknown ? [] : await readBroken(repository, asked, selection);
  const failed = broken.map(({ name, problems: own, steps }): FailedModel => {
    // The problems of a step are reported for that model.
    const needs = steps.find((step) => broken.some((other) => other.name === step));
    return needs === undefined ? failedModel(name, own) : failedWith(name, needs);
  });
  if (failed.length === 0) throw new UserError(`cannot serve ${repository}`, { problems });
  const valid = asked.filter((name) => !exclude.includes(name) && !failed.some((one) => one.name === name));
  if (valid.length === 0) return { models: [], added: [], failed };
  const read = await readRepository(repository, { models: valid, exclude, artifacts });
  return { models: read.models, added: read.added, failed };
}

interface BrokenModel {
  name: string;
  problems: readonly Problem[];
  /** The models of an ensemble's steps. */
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

/** The failure of an ensemble that needs a failed model. */
export function failedWith(name: string, needs: string): FailedModel {
  const reason = `needs ${needs}, which failed`;
  return { name, reason, details: reason, needs, problems: [{ file: name, message: reason }] };
}

/** The failure of a model whose files cannot be served because of an error. */
export function failedBecause(name: string, error: UserError): FailedModel {
  const { message, problems } = error;
  // The problems of a partial failure are its consequences.
  const isOwn = problems.length > 0 && !(error instanceof PartialFailureError);
  return { ...failedModel(name, isOwn ? problems : [{ file: name, message }]), details: formatUserError(error) };
}

/** @param problems at least one */
export function failedModel(name: string, problems: readonly Problem[]): FailedModel {
  const [first] = problems;
  const field = first?.field === undefined ? '' : `${first.field}: `;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
  const [line = ''] = `${field}${first?.message ?? ''}`.split('\n');
  return { name, reason: `${line}${more}`, details: problems.map(formatProblem).join('\n'), problems };
}

/** The error if no model is served. */
export const cannotServeAny = (failed: readonly FailedModel[]): UserError =>
  new UserError('cannot serve any model', { problems: failed.flatMap(({ problems }) => problems) });
