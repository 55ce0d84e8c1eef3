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
  failed: FailedModel[];
}

/**
 * Reads the selected models. Leaves out models with problems, and ensembles that need them.
 * @throws UserError with all problems if one of them belongs to no single model, such as an unknown name
 */
export async function readValidModels(repository: string, selection: Selection): Promise<ValidModels> {
  const { models, problems, problemsOf, added } = await readRepository(repository, selection);
  const failed = new Map<string, FailedModel>();
  for (const [name, own] of problemsOf) if (own.length > 0) failed.set(name, failedModel(name, own));
  if ([...problemsOf.values()].flat().length < problems.length) {
    throw new UserError(`cannot serve ${repository}`, { problems });
  }
  addEnsembles(failed, models, failedWith);
  const valid = models.filter(({ name }) => !failed.has(name));
  const isNeeded = (step: string): boolean => valid.some(({ config }) => stepModels(config).includes(step));
  return {
    models: valid.filter(({ name }) => !added.includes(name) || isNeeded(name)),
    failed: [...failed.values()],
  };
}

/** Adds the ensembles that need one of the models in `found`. Ensembles may contain ensembles. */
export function addEnsembles<T>(
  found: Map<string, T>,
  models: readonly RepositoryModel[],
  make: (name: string, needs: string) => T,
): void {
  for (let before = -1; before !== found.size;) {
    before = found.size;
    for (const { name, config } of models) {
      const needs = stepModels(config).find((step) => found.has(step));
      if (needs !== undefined) found.set(name, make(name, needs));
    }
  }
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
