import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { traceCommand } from '../core/next-command';
import {
  exportedPrograms,
  readValidRepository,
  requirePublishable,
  staleTraces,
  type RepositoryModel,
  type Selection,
} from '../model';
import { displayPath } from '../model/paths';
import { findBuilds, getTarget, withBuilds } from './builds';
import { desiredModels, type DesiredModel } from './desired';
import { makeRelease } from './make-release';
import type { ReleaseOptions, ReleaseResult } from './options';
import { readProvenance } from './provenance';

export { VersionConflictError } from './plan';

export interface PublishOptions extends ReleaseOptions, Pick<Selection, 'models' | 'exclude'> {
  repository: string;
  /** Remove models from service that the folder does not have. */
  prune?: boolean;
  /** Replace published versions instead of reporting a conflict, as `npm run local` does. */
  replacePublished?: boolean;
  /**
   * Set if the replicas are those of `npm run local`: changes the models before they are published, and leaves out those
   * that it does not serve. Otherwise artifacts that were checked only quickly are refused.
   */
  adaptToThisMachine?:
    | ((models: readonly RepositoryModel[], leaveOut: (name: string, reason: string) => void) => RepositoryModel[])
    | undefined;
  /** What the replicas run compiled models with. Default: what the first agent says. */
  buildTarget?: string | undefined;
}

export interface Published extends ReleaseResult {
  models: DesiredModel[];
}

/**
 * Publishes a model repository: reads and validates the folder, and makes a release with its models. Nothing is written
 * unless everything is valid.
 */
export async function publish(options: PublishOptions): Promise<Published> {
  const { repository, prune = false, onWarning, adaptToThisMachine } = options;
  const read = await readValidRepository(repository, options, 'published; nothing was uploaded');
  const bucket = { store: options.store, location: options.location };
  const programs = adaptToThisMachine === undefined ? read.models.flatMap(exportedPrograms) : [];
  const target = programs.length > 0 ? (options.buildTarget ?? (await getTarget(options.agents))) : undefined;
  const built = target === undefined ? [] : await findBuilds(programs, bucket, target);
  if (adaptToThisMachine === undefined) {
    await requirePublishable(read.models, { isBuilt: (file) => built.some(({ path }) => path === file), target });
  }
  if (read.added.length > 0) options.onStage?.(`also publish the steps of an ensemble: ${read.added.join(', ')}`);
  if (onWarning !== undefined) (await staleTraces(read.models)).forEach(onWarning);
  const desired = await desiredModels(
    adaptToThisMachine?.(read.models, (name, reason) => options.onStage?.(`${name} is left out: ${reason}`)) ??
      read.models,
  );
  const models = desired.map((one) => withBuilds(one, built));
  const made = await makeRelease(({ current }) => {
    const absent = Object.keys(current?.models ?? {}).filter((name) => !read.names.includes(name));
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
        hint: 'to remove them from the replicas, publish with --prune',
      });
    }
    return Promise.resolve({
      models,
      remove,
      replacePublished: options.replacePublished,
      traceCommand: (name, version) =>
        existsSync(join(repository, name, 'trace.py'))
          ? traceCommand(join(resolve(repository), name), '--version', String(version))
          : undefined,
      origin: `sync-models ${repository}`,
      provenance: () => readProvenance(repository, options.message),
    });
  }, options);
  return { ...made, models };
}
