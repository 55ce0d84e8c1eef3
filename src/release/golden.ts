import { UserError } from '../core/errors';
import { decodeGolden, type GoldenRequest } from '../model/golden';
import { checksumOfBytes } from '../s3/checksum';
import type { S3Reader } from '../s3/reader';
import type { ManifestModel } from './manifest';

/**
 * The golden requests of a model of a release, from S3.
 * @throws UserError if they are missing or are not the bytes that the release names
 */
export async function readGoldenRequests(
  model: string,
  golden: ManifestModel['golden'],
  store: Pick<S3Reader, 'bucket' | 'get'>,
): Promise<GoldenRequest[]> {
  if (golden === undefined) return [];
  const where = `s3://${store.bucket}/${golden.key}`;
  const found = await store.get(golden.key, golden);
  if (found !== undefined && checksumOfBytes(found.body) === golden.checksum) return decodeGolden(found.body, where);
  throw new UserError(
    `cannot read the golden requests of ${model}: ${where} ${found === undefined ? 'is missing' : 'has other bytes than the release names'}`,
    { hint: 'publish the model again, or skip the verification of answers with --no-ask' },
  );
}
