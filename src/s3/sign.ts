import { createHash, createHmac } from 'node:crypto';
import type { Credentials } from './types';

/** The parts of a request that are signed. */
export interface Signable {
  method: string;
  /** Percent-encoded. */
  path: string;
  /** Percent-encoded, sorted by name. */
  query: string;
  /** Names in lower case, including `host`. */
  headers: Record<string, string>;
  /** SHA-256 of the body, hexadecimal. */
  bodySha256: string;
}

/**
 * AWS Signature Version 4 for S3. Replaces @smithy/signature-v4, which takes five times as long per request and 30 ms
 * to load. The unit test compares the two.
 */
export class Signer {
  private day = '';
  private secret = '';
  private key: Buffer = Buffer.alloc(0);

  constructor(private readonly region: string) {}

  /** The request's headers together with the headers that sign it. */
  sign(request: Signable, credentials: Credentials, now: Date): Record<string, string> {
    const time = now.toISOString().replace(/[-:]|\.\d+/g, '');
    const day = time.slice(0, 8);
    const headers: Record<string, string> = {
      ...request.headers,
      'x-amz-content-sha256': request.bodySha256,
      'x-amz-date': time,
    };
    if (credentials.sessionToken !== undefined) headers['x-amz-security-token'] = credentials.sessionToken;

    const names = Object.keys(headers).sort();
    const signedHeaders = names.join(';');
    let canonical = `${request.method}\n${request.path}\n${request.query}\n`;
    for (const name of names) canonical += `${name}:${(headers[name] as string).trim().replace(/ {2,}/g, ' ')}\n`;
    canonical += `\n${signedHeaders}\n${request.bodySha256}`;

    const scope = `${day}/${this.region}/s3/aws4_request`;
    const hash = createHash('sha256').update(canonical).digest('hex');
    const signature = createHmac('sha256', this.keyFor(credentials.secretAccessKey, day))
      .update(`AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash}`)
      .digest('hex');
    headers['authorization'] =
      `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${signedHeaders}, Signature=${signature}`;
    return headers;
  }

  /** The signing key, cached because it is the same for a whole day. */
  private keyFor(secret: string, day: string): Buffer {
    if (this.day !== day || this.secret !== secret) {
      this.key = [day, this.region, 's3', 'aws4_request'].reduce(
        (key: Buffer, text) => createHmac('sha256', key).update(text).digest(),
        Buffer.from(`AWS4${secret}`),
      );
      this.day = day;
      this.secret = secret;
    }
    return this.key;
  }
}
