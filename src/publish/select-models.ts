import { UserError } from '../core/errors';
import type { Manifest } from '../release/manifest';
import type { DesiredModel } from './desired';

/**
 * Selects the models of a release that --models names; all models if it was not given.
 * @param where the repository of the release, for messages
 * @throws UserError for a name that the release lacks, and for an ensemble without one of its composing models
 */
export function selectModels(
  all: DesiredModel[],
  selection: readonly string[] | undefined,
  { release, where }: { release: Manifest; where: string },
): DesiredModel[] {
  if (selection === undefined) return all;
  const unknown = selection.find((name) => release.models[name] === undefined);
  if (unknown !== undefined) {
    throw new UserError(`release ${release.id} of ${where} has no model "${unknown}"`, {
      hint: `models of the release: ${Object.keys(release.models).join(', ')}`,
    });
  }
  const models = all.filter(({ name }) => selection.includes(name));
  for (const { name, composedOf } of models) {
    const missing = composedOf.find((step) => !selection.includes(step));
    if (missing !== undefined) {
      throw new UserError(`ensemble ${name} contains ${missing}, which --models does not name`, {
        hint: `add ${missing} to --models`,
      });
    }
  }
  return models;
}
