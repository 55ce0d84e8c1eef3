import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { traceCommand } from '../core/next-command';
import {
  readValidRepository,
  requireThoroughChecks,
  staleTraces,
  type RepositoryModel,
  type Selection,
} from '../model';
import { displayPath } from '../model/paths';
import type { ApplyResult, ApplyOptions } from './apply/options';
import { change } from './change';
import { readSnapshot } from './plan/snapshot';
import { readProvenance } from './release/provenance';
import { desiredModels, type DesiredModel } from './plan/desired';

export { VersionConflictError } from './apply/preconditions';

export interface PublishOptions extends ApplyOptions, Pick<Selection, 'models' | 'exclude'> {
  /** Folder of the model repository. */
  repository: string;
  /** Delete models and versions from the bucket that the folder does not have. */
  prune?: boolean;
  /** Replace published versions instead of reporting a conflict. Only for repositories that are used by tests alone. */
  replacePublished?: boolean;
  /**
   * Set if the replicas are those of `npm run local`: changes each model before it is published. Otherwise artifacts that
   * were checked only quickly are refused.
   */
  adaptToThisMachine?: ((model: RepositoryModel) => RepositoryModel) | undefined;
}

export interface Published extends ApplyResult {
  models: DesiredModel[];
}

/**
 * Publishes a model repository: reads and validates the folder, compares it with the bucket, writes the differences,
 * and makes each replica serve the models. Nothing is written unless everything is valid.
 */
export async function publish(options: PublishOptions): Promise<Published> {
  const { repository, store, location, prune = false } = options;
  // Read the bucket while the folder is read. Nothing is written before both are known.
  const firstSnapshot = options.agents === undefined ? readSnapshot(store, location) : undefined;
  firstSnapshot?.catch(() => undefined);
  const read = await readValidRepository(repository, options, 'published; nothing was uploaded');
  if (options.adaptToThisMachine === undefined) await requireThoroughChecks(read.models);
  if (read.added.length > 0) options.onStage?.(`also publish the steps of an ensemble: ${read.added.join(', ')}`);
  const { onWarning } = options;
  if (onWarning !== undefined) (await staleTraces(read.models)).forEach(onWarning);
  const models = await desiredModels(
    options.adaptToThisMachine === undefined ? read.models : read.models.map(options.adaptToThisMachine),
  );
  const changed = await change(
    (release) => {
      const absent = Object.keys(release?.models ?? {}).filter((name) => !read.names.includes(name));
      const gone = prune ? absent : [];
      // With --models, the user asks for a change of the named models only.
      const remove = options.models === undefined ? gone : [];
      if (gone.length > remove.length) {
        options.onStage?.(`--prune keeps ${gone.join(', ')}, because --models removes no model`);
      }
      if (absent.length > 0 && !prune && options.models === undefined) {
        onWarning?.({
          file: displayPath(repository),
          message: `no longer has these models, which stay served: ${absent.join(', ')}`,
          hint: 'to remove them from the replicas and the bucket, publish with --prune',
        });
      }
      return Promise.resolve({
        models,
        remove,
        archiveRemoved: false,
        replacePublished: options.replacePublished === true,
        prune,
        traceCommand: (name, version) =>
          existsSync(join(repository, name, 'trace.py'))
            ? traceCommand(join(resolve(repository), name), '--version', String(version))
            : undefined,
        origin: `sync-models ${repository}`,
        provenance: () => readProvenance(repository, options.message),
      });
    },
    { ...options, firstSnapshot },
  );
  return { ...changed, models };
}
