import { setTimeout as sleep } from 'node:timers/promises';
import { S3 } from '@aws-sdk/client-s3';
import { UserError } from '../core/errors';
import { S3Error } from './errors';
import { getFailure, RequestError, waitBefore, type Requester, type S3Request } from './requester';

/**
 * The rare requests, with AWS's SDK: it writes their XML and reads the answers. Requester sends them, so that endpoint,
 * sign-in, retries and messages are those of all requests. It also replaces the name of the bucket, because only it
 * knows how the bucket is addressed.
 */

/** The SDK with an input for its methods, and the options of their requests. */
export type Send<T> = (s3: S3, input: { Bucket: string }, options: object) => Promise<T>;

interface SdkRequest {
  method: string;
  path: string;
  query: Record<string, string | null>;
  headers: Record<string, string>;
  body?: string | Uint8Array;
}

interface Sending extends Pick<S3Request<unknown>, 'what' | 'answerBytes'> {
  requester: Requester;
}

const s3 = new S3({
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
  { requester, ...sending }: Sending,
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

/** Sends a request with the SDK. If the SDK or `send` cannot read the answer, it is sent again. */
export async function sendWithSdk<T>(sending: Sending, send: Send<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send(s3, { Bucket: 'b' }, sending);
    } catch (cause) {
      if (cause instanceof UserError) throw cause;
      const text = (cause as Error).message.split('\n', 1)[0] as string;
      const details = cause instanceof RequestError ? cause.details : { code: 'MalformedAnswer', text, cause };
      if (tries === MOST_TRIES) throw new S3Error(sending.what, sending.requester.url, details);
      await sleep(waitBefore(tries));
    }
  }
}
