import { UserError } from '../core/errors';
import { decodeGolden, verifyGolden, type GoldenRequest, type ReleasedGolden } from '../model/golden';
import { PreconditionFailedError, type S3Store } from '../s3/store';
import { goldenKey, type RepositoryLocation } from '../release/location';

/** Golden requests of a desired model: their entry in the release, and their bytes. */
export interface DesiredGolden extends ReleasedGolden {
  body: () => Promise<Buffer>;
}

/** The golden requests of a release in `store`, read on demand. */
export function storedGolden(store: S3Store, location: RepositoryLocation, golden: ReleasedGolden): DesiredGolden {
  const where = `s3://${store.bucket}/${goldenKey(location, golden.sha256)}`;
  return {
    ...golden,
    body: async () => {
      const found = await store.get(goldenKey(location, golden.sha256));
      if (found === undefined) {
        throw new UserError(`cannot read the golden requests of the release: ${where} is missing`, {
          hint: 'restore that object, publish the model again, or skip the verification of answers with --no-ask',
        });
      }
      verifyGolden(found.body, golden, where);
      return found.body;
    },
  };
}

/** Decodes golden requests after their bytes were verified. */
export async function readRequests(golden: DesiredGolden | undefined): Promise<GoldenRequest[]> {
  return golden === undefined ? [] : decodeGolden(await golden.body(), golden, 'the golden requests');
}

/** Writes the object with golden requests, unless an object with the same content exists. */
export async function putGolden(store: S3Store, location: RepositoryLocation, golden: DesiredGolden): Promise<void> {
  try {
    await store.putBytes(goldenKey(location, golden.sha256), await golden.body(), { ifAbsent: true });
  } catch (error) {
    if (!(error instanceof PreconditionFailedError)) throw error;
  }
}
