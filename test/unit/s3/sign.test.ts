import { createHash, createHmac } from 'node:crypto';
import { SignatureV4 } from '@smithy/signature-v4';
import { encodeKey, encodeQuery } from '../../../src/s3/endpoint';
import { Signer } from '../../../src/s3/sign';

/** The hash that the signer of AWS requires. */
class Sha256 {
  private readonly hash: ReturnType<typeof createHash> | ReturnType<typeof createHmac>;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret as Buffer);
  }
  update(data: Uint8Array): void {
    this.hash.update(data);
  }
  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.hash.digest());
  }
  reset(): void {}
}

const credentials = { accessKeyId: 'AKIAEXAMPLE', secretAccessKey: 'secret/Key+1' };
const EMPTY = createHash('sha256').digest('hex');

interface Case {
  request: string;
  method: string;
  key: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  sessionToken?: string;
}

test.each<Case>([
  { request: 'a plain GET', method: 'GET', key: 'models/a.txt' },
  {
    request: 'a key with special characters',
    method: 'PUT',
    key: `a b+c%20/ü/日本!'()*~$&,;=:@?#`,
    headers: { 'if-none-match': '*' },
  },
  {
    request: 'a query',
    method: 'GET',
    key: '',
    query: { prefix: 'a b/+%ü', 'list-type': '2', uploads: '', 'max-keys': '1000' },
  },
  {
    request: 'headers with blanks',
    method: 'PUT',
    key: 'k',
    headers: { 'x-amz-meta-a': '  a   b  ', 'if-match': '"abc"' },
  },
  { request: 'a session', method: 'DELETE', key: 'k', query: { uploadId: 'a/b==' }, sessionToken: 'token/+=' },
])(
  'Signer.sign signs $request as the signer of AWS does',
  async ({ method, key, query = {}, headers = {}, sessionToken }) => {
    const used = { ...credentials, sessionToken };
    const path = `/bucket/${encodeKey(key)}`;
    const host = 's3.eu-west-1.amazonaws.com';
    for (const now of [new Date('2026-01-02T03:04:05.678Z'), new Date('2026-01-03T00:00:00Z')]) {
      const ours = new Signer('eu-west-1').sign(
        { method, path, query: encodeQuery(query), headers: { host, ...headers }, bodySha256: EMPTY },
        used,
        now,
      );
      const theirs = await new SignatureV4({
        service: 's3',
        region: 'eu-west-1',
        credentials: used,
        sha256: Sha256,
        uriEscapePath: false,
      }).sign(
        {
          method,
          protocol: 'https:',
          hostname: host,
          path,
          query,
          headers: { host, 'x-amz-content-sha256': EMPTY, ...headers },
        },
        { signingDate: now },
      );
      expect(ours['authorization']).toBe(theirs.headers['authorization']);
      expect(ours).toEqual(theirs.headers);
    }
  },
);

test('Signer.sign renews its key after midnight and for other credentials', () => {
  const request = { method: 'GET', path: '/', query: '', headers: { host: 'h' }, bodySha256: EMPTY };
  const signer = new Signer('r');
  const other = { ...credentials, secretAccessKey: 'other' };
  for (const [used, time] of [
    [credentials, '2026-01-02T23:59:59Z'],
    [credentials, '2026-01-03T00:00:00Z'],
    [other, '2026-01-03T00:00:00Z'],
    [credentials, '2026-01-03T00:00:00Z'],
  ] as const) {
    const fresh = new Signer('r').sign(request, used, new Date(time));
    expect(signer.sign(request, used, new Date(time))).toEqual(fresh);
  }
});
