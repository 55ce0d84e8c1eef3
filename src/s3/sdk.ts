import { setTimeout as sleep } from 'node:timers/promises';
import * as sdk from '@aws-sdk/client-s3';
import { UserError } from '../core/errors';
import { S3Error } from './errors';
import { getFailure, RequestError, waitBefore, type Requester } from './requester';

/**
 * The rare requests, with AWS's SDK: it writes their XML and reads the answers. Requester sends them, so that endpoint,
 * sign-in, retries and messages are those of all requests.
 */

interface SdkRequest {
  method: string;
  path: string;
  query: Record<string, string | null>;
  headers: Record<string, string>;
  body?: string | Uint8Array;
}

type Name =
  | `${'Create' | 'Complete' | 'Abort'}MultipartUpload`
  | `${'Get' | 'Put'}BucketVersioning`
  | ('CreateBucket' | 'DeleteObjects' | 'ListObjectsV2' | 'UploadPartCopy');
type Command<N extends Name> = InstanceType<(typeof sdk)[`${N}Command`]>;
type Handler<N extends Name> = ReturnType<Command<N>['resolveMiddleware']>;

/** Sends a command to the bucket and reads its answer. */
export type Run = <N extends Name, T>(
  what: string,
  name: N,
  input: Omit<Command<N>['input'], 'Bucket'>,
  read: (output: Awaited<ReturnType<Handler<N>>>['output']) => T,
  copiedBytes?: number,
) => Promise<T>;

// The warning about the version of Node is for those who use the SDK in their own code.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';

const client = new sdk.S3Client({
  region: 'us-east-1',
  endpoint: 'http://s3',
  forcePathStyle: true,
  credentials: { accessKeyId: '-', secretAccessKey: '-' },
  maxAttempts: 1,
  // Otherwise they come from the user's environment, which only Requester heeds.
  useFipsEndpoint: false,
  useDualstackEndpoint: false,
  useArnRegion: false,
  disableS3ExpressSessionAuth: true,
  defaultsMode: 'standard',
  retryMode: 'standard',
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
  requestHandler: { handle: handle as never },
});

/** Most tries for an answer that the SDK cannot read, or that reports a transient failure of one of several objects. */
const MOST_TRIES = 5;

/** The headers that are passed on. Requester adds those of the signature and the connection. */
const PASSED_ON = /^(content-type|if-.*|x-amz-(?!date$|content-sha256$|user-agent$).*)$/;

async function handle(
  { method, path, query, headers, body }: SdkRequest,
  { requester, ...sending }: { requester: Requester; what: string; copiedBytes: number },
): Promise<unknown> {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return requester.send({
    ...sending,
    method,
    key: decodeURIComponent(path.replace(/^\/b\/?/, '')),
    query: Object.fromEntries(
      Object.entries(query).flatMap(([name, value]) => (name === 'x-id' ? [] : [[name, value ?? '']])),
    ),
    headers: Object.fromEntries(named.filter(([name]) => PASSED_ON.test(name))),
    body: typeof body === 'string' ? Buffer.from(body) : body,
    read: (answer) => {
      // S3 may send an error with status 200, because it keeps the connection alive while it copies or joins parts.
      if (/^\s*(<\?[^>]*>\s*)?<Error[\s>]/.test(answer.body.toString('latin1', 0, 500)))
        throw new RequestError(getFailure(answer));
      return { response: { statusCode: answer.status, headers: answer.headers, body: answer.body } };
    },
  });
}

/** @returns what sends commands with `requester`. If the SDK or `read` cannot read an answer, the command is sent again. */
export function runWith(requester: Requester): Run {
  return async (what, name, input, read, copiedBytes = 0) => {
    // Requester replaces the name of the bucket, because only it knows how the bucket is addressed.
    const command = new (sdk[`${name}Command`] as new (input: object) => object)({ ...input, Bucket: 'b' });
    for (let tries = 1; ; tries += 1) {
      try {
        const output: unknown = await client.send(command as never, { requester, what, copiedBytes } as never);
        return read(output as never);
      } catch (cause) {
        if (cause instanceof UserError) throw cause;
        const text = (cause as Error).message.split('\n', 1)[0] as string;
        const details = cause instanceof RequestError ? cause.details : { code: 'MalformedAnswer', text, cause };
        if (tries === MOST_TRIES) throw new S3Error(what, requester.url, details);
        await sleep(waitBefore(tries));
      }
    }
  };
}
