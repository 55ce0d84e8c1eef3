import type { RepositoryModel } from '../../../src/model';
import type { AgentSource } from '../../../src/publish/agent-client';
import { desiredModels } from '../../../src/publish/desired';
import { makeRelease } from '../../../src/publish/make-release';
import type { ReleaseOptions } from '../../../src/publish/options';
import type { TrialOptions } from '../../../src/publish/trials';
import type { S3Store } from '../../../src/s3/store';

export interface PublishOptions extends Pick<ReleaseOptions, 'location' | 'signal'> {
  store: S3Store;
  commitStore: S3Store;
  agents: AgentSource;
  trials: Partial<TrialOptions>;
}

/** The only place where the simulation knows how a publisher is put together. */
export async function publish(models: readonly RepositoryModel[], options: PublishOptions): Promise<void> {
  const target = { models: await desiredModels(models), remove: [], origin: 'simulation' };
  await makeRelease(() => Promise.resolve(target), { ...options, loadTimeoutMs: 60_000, waitMs: 0 });
}
