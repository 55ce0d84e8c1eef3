import { UserError } from '../core/errors';
import { PreconditionFailedError, type S3Store } from '../s3/store';

/**
 * Checks that the server refuses to create an object that exists. Publishers depend on it, and some servers ignore the
 * condition. Costs a request, so it is called only for the first object of a repository.
 * @param body the present content of the object, so that a server that ignores the condition changes nothing
 * @throws UserError
 */
export async function requireConditions(store: S3Store, key: string, body: Buffer): Promise<void> {
  try {
    // The client takes a refusal for success if the object has the same content, and says since when it has it.
    if ((await store.putBytes(key, body, { ifAbsent: true })).modified !== undefined) return;
  } catch (error) {
    if (error instanceof PreconditionFailedError) return;
    throw error;
  }
  throw new UserError(
    `the server of s3://${store.bucket} ignores conditions of writes: it replaced an object although the request had "If-None-Match: *"`,
    {
      hint: "use S3 or a server with conditional writes; publishers without them would overwrite each other's releases",
    },
  );
}
