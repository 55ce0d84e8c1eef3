import { publishRelease, type PublishReleaseOptions } from '../../../src/publish/trial/publish-release';
import type { RepositoryModel } from '../../../src/model';

/** The only place where the simulation knows how a publisher is put together. */
export async function publish(models: readonly RepositoryModel[], options: PublishReleaseOptions): Promise<void> {
  await publishRelease(models, options);
}
