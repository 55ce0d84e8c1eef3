import { ProgressMeter } from '../../src/cli/progress-meter';
import type { Progress } from '../../src/cli/progress';
import { UserError } from '../../src/core/errors';
import type { Crane } from './crane';
import type { MirroredImage } from './mirrored-image';

/** An image, and where its copy is. */
export interface ImageCopy {
  source: string;
  digest: string;
  /** `REPOSITORY@DIGEST` in ECR. */
  target: string;
  tag: string;
  /** Size of the whole index, all architectures included; undefined if ECR had the image. */
  bytes: number | undefined;
  /** `missing` only with dryRun. */
  result: 'copied' | 'present' | 'missing';
}

/**
 * Copies an image into its ECR repository, unless its tag is there. Copies the whole index, so that both registries have
 * the same digest.
 * @param uri of the repository
 */
export async function copyImage(
  { source, digest: given, tag }: MirroredImage,
  uri: string,
  { crane, progress, dryRun }: { crane: Crane; progress: Progress; dryRun: boolean },
): Promise<ImageCopy> {
  const result = (digest: string, rest: Pick<ImageCopy, 'bytes' | 'result'>): ImageCopy => {
    return { source, digest, target: `${uri}@${digest}`, tag, ...rest };
  };
  const target = `${uri}:${tag}`;
  const present = await crane.digest(target);
  if (present !== undefined && present !== (given ?? present)) throw otherDigest(target, present, source);
  if (present !== undefined) return result(present, { bytes: undefined, result: 'present' });
  const digest = given ?? (await crane.digest(source));
  if (digest === undefined) {
    throw new UserError(`${source} does not exist`, { hint: 'check image and agentImage in the stack file' });
  }
  const repository = source.replace(/@.*$/, '').replace(/:[\w.-]+$/, '');
  const blobs = await crane.blobs(repository, digest);
  const bytes = [...blobs.values()].reduce((sum, size) => sum + size, 0);
  if (dryRun) return result(digest, { bytes, result: 'missing' });
  await progress.run(`copy ${source}`, async (step) => {
    const meter = new ProgressMeter(bytes);
    step.update(meter.add(0));
    await crane.copy(`${repository}@${digest}`, target, (blob) => step.update(meter.add(blobs.get(blob) ?? 0)));
  });
  const copied = await crane.digest(target);
  if (copied !== digest) throw otherDigest(target, copied, source);
  return result(digest, { bytes, result: 'copied' });
}

const otherDigest = (target: string, digest: string | undefined, source: string): UserError =>
  new UserError(`${target} has the digest ${digest}, and is no copy of ${source}`, {
    hint: 'delete this tag (aws ecr batch-delete-image), and run the command again',
  });
