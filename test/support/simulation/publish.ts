import type { RepositoryModel } from '../../../src/model';
import type { ApplyOptions } from '../../../src/publish/apply/options';
import { desiredModels } from '../../../src/publish/plan/desired';
import { applyRelease } from '../../../src/publish/trial/apply-release';
import type { AgentSource } from '../../../src/publish/trial/agent-client';
import type { TrialOptions } from '../../../src/publish/trial/trials';
import type { S3Store } from '../../../src/s3/store';

export interface PublishOptions extends Pick<ApplyOptions, 'location' | 'signal'> {
  store: S3Store;
  commitStore: S3Store;
  agents: AgentSource;
  trials: Partial<TrialOptions>;
}

/** The only place where the simulation knows how a publisher is put together. */
export async function publish(
  models: readonly RepositoryModel[],
  { agents, trials, ...options }: PublishOptions,
): Promise<void> {
  const target = {
    models: await desiredModels(models),
    remove: [],
    archiveRemoved: false,
    prune: false,
    origin: 'simulation',
  };
  await applyRelease(
    () => Promise.resolve(target),
    { agents, migrate: false, plain: [] },
    { ...options, replicas: undefined, trials, loadTimeoutMs: 60_000, lockTimeoutMs: 0 },
  );
}
