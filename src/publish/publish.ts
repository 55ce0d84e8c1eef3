import { readSoundRepository, type RepositoryModel, type Selection } from '../model';
import { change } from './apply/apply';
import type { Changed, ChangeOptions } from './apply/options';
import { lookAt } from './plan/snapshot';
import { hashAhead } from './plan/plan';
import { provenanceOf } from './release/provenance';
import type { Release } from './release/release';
import { wantedModels, type WantedModel } from './plan/desired';

export { VersionConflict } from './apply/preconditions';

export interface PublishOptions extends ChangeOptions, Pick<Selection, 'models' | 'exclude'> {
  /** Folder of the model repository. */
  repository: string;
  /** Delete models and versions from the bucket that the folder does not have. */
  prune?: boolean;
  /** Replace published versions instead of reporting a conflict. Only for repositories that are used by tests alone. */
  replacePublished?: boolean;
  /** Remove models that are not selected; a rollback can restore them. */
  removeOthers?: boolean;
  /** Changes each model before it is published. */
  adapt?: ((model: RepositoryModel) => RepositoryModel) | undefined;
}

export interface Published extends Changed {
  models: WantedModel[];
}

/**
 * Publishes a model repository: reads and validates the folder, compares it with the bucket, writes the differences,
 * and makes each replica serve the models. Nothing is written unless everything is valid.
 */
export async function publish(options: PublishOptions): Promise<Published> {
  const { repository, store, location, prune = false } = options;
  // Read the bucket while the folder is read. Nothing is written before both are known.
  let headIsKnown: (release: Release | undefined) => void = () => undefined;
  const head = new Promise<Release | undefined>((resolve) => (headIsKnown = resolve));
  const firstLook = lookAt(store, location, headIsKnown);
  firstLook.catch(() => headIsKnown(undefined));
  const read = await readSoundRepository(repository, options, 'published; nothing was uploaded');
  if (read.added.length > 0) options.onStage?.(`also publish the steps of an ensemble: ${read.added.join(', ')}`);
  const models = await wantedModels(options.adapt === undefined ? read.models : read.models.map(options.adapt));
  void head.then((release) => hashAhead(models, release));
  const changed = await change(
    (release) => {
      const gone = prune ? Object.keys(release?.models ?? {}).filter((name) => !read.names.includes(name)) : [];
      const others = Object.keys(release?.models ?? {}).filter((name) => !models.some((model) => model.name === name));
      // With --models, the user asks for a change of the named models only.
      const remove = options.removeOthers === true ? others : options.models === undefined ? gone : [];
      if (gone.length > remove.length) {
        options.onStage?.(`--prune keeps ${gone.join(', ')}, because --models removes no model`);
      }
      return Promise.resolve({
        models,
        remove,
        keepRemoved: options.removeOthers === true,
        replacePublished: options.replacePublished === true,
        prune,
        origin: `sync-models ${repository}`,
        provenance: () => provenanceOf(repository, options.message),
      });
    },
    { ...options, firstLook },
  );
  return { ...changed, models };
}
