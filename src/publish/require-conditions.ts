import { UserError } from '../core/errors';
import { PreconditionFailedError, type S3Store } from '../s3/store';

/**
 * Verifies that the server refuses to create an object that exists. Publishers depend on that, and some servers ignore
 * the condition. Costs a request, so it is called only for the first object of a repository.
 * @param body the content of the object
 * @throws UserError if the server does not refuse; then the object is deleted, so that the next publisher verifies again
 */
export async function requireConditions(store: S3Store, key: string, body: Buffer): Promise<void> {
  try {
    // Other bytes, because the client takes a refused write of the same bytes for its own earlier try.
    await store.putBytes(key, Buffer.concat([body, Buffer.from('\n')]), { ifAbsent: true });
  } catch (error) {
    if (error instanceof PreconditionFailedError) return;
    throw error;
  }
  await store.delete([{ key }]).catch(() => undefined);
  throw new UserError(
    `the S3 server at ${store.url} lacks conditional writes: it replaced s3://${store.bucket}/${key}, although the request had "If-None-Match: *"`,
    {
      hint: "use a server that supports If-None-Match and If-Match; without them, publishers would overwrite each other's releases",
    },
  );
}
