import { UserError } from '../errors';
import { readRepository } from '../model';
import { applyPlan } from './apply';
import type { RepositoryLocation } from './location';
import { currentRelease, type Release } from './manifest';
import { conflicts, makePlan, type Plan } from './plan';
import { loadOnReplica } from './replicas';
import type { S3Store } from './s3-store';
import { wantedModels, type WantedModel } from './wanted';

export interface PublishOptions {
  /** Folder of the model repository. */
  repository: string;
  models?: readonly string[];
  exclude?: readonly string[];
  store: S3Store;
  location: RepositoryLocation;
  /** HTTP addresses of running servers, told one after the other. */
  replicas: readonly string[];
  /** For one model to become READY on one replica. */
  loadTimeoutMs: number;
  dryRun?: boolean;
  /** Called before anything is written. */
  onPlan?: (plan: Plan) => void;
  onUploaded?: (key: string, bytes: number) => void;
  onReady?: (replica: string, model: string, milliseconds: number) => void;
}

export interface Published {
  plan: Plan;
  /** Undefined after a dry run on a bucket without a release. */
  release: Release | undefined;
  models: WantedModel[];
  /** Models that were added because an ensemble needs them. */
  added: readonly string[];
}

/**
 * Publishes a model repository: reads and validates the folder, compares it with the bucket, writes what differs,
 * and gets each replica to serve it. Nothing is written unless everything was found valid.
 */
export async function publish(options: PublishOptions): Promise<Published> {
  const {
    models: read,
    problems,
    added,
  } = await readRepository(options.repository, {
    ...(options.models === undefined ? {} : { models: [...options.models] }),
    ...(options.exclude === undefined ? {} : { exclude: [...options.exclude] }),
  });
  if (problems.length > 0) {
    throw new UserError(`${options.repository} is not ready to be published; nothing was uploaded`, { problems });
  }
  const [models, previous] = await Promise.all([wantedModels(read), currentRelease(options.store, options.location)]);
  const plan = await makePlan(models, options.store, options.location, previous?.release);
  options.onPlan?.(plan);
  requireNoConflict(plan);
  if (options.dryRun === true) return { plan, release: previous?.release, models, added };

  const release = await applyPlan(plan, {
    store: options.store,
    location: options.location,
    previous,
    ...(options.onUploaded === undefined ? {} : { onUploaded: options.onUploaded }),
  });
  for (const url of options.replicas) {
    // All of them, also those that did not change now: an earlier run may have ended before it came to this server.
    // Triton leaves alone what it serves as it is.
    await loadOnReplica(url, models, {
      timeoutMs: options.loadTimeoutMs,
      ...(options.onReady === undefined ? {} : { onReady: options.onReady }),
    });
  }
  return { plan, release, models, added };
}

/** A version folder of the bucket is never changed: what is served from it may be loaded again at any time. */
export class VersionConflict extends UserError {
  override readonly name = 'VersionConflict';
}

function requireNoConflict(plan: Plan): void {
  const found = conflicts(plan);
  if (found.length === 0) return;
  throw new VersionConflict(`published versions are never changed, and these would be:\n  ${found.join('\n  ')}`, {
    hint: 'put the new files into a new version folder (1 -> 2) and name it in version_policy; nothing was uploaded',
  });
}
