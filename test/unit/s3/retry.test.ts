import { readFileSync } from 'node:fs';
import { S3Error } from '../../../src/s3/errors';
import { isOutage, isTransient } from '../../../src/s3/retry';
import { ConnectionError } from '../../../src/s3/send-request';

const answer = (code: string, status = 400): S3Error => new S3Error('write', 'http://host', { code, status });
const failure = (code: string): S3Error =>
  new S3Error('write', 'http://host', { code, cause: new ConnectionError(code, code) });

/** The lists of the AWS SDK, which it does not export. */
function getSdkList(name: string): string[] {
  const source = readFileSync(require.resolve('@smithy/core/retry'), 'utf8');
  const [, list = ''] = new RegExp(`const ${name} = \\[([^\\]]*)\\]`).exec(source) ?? [];
  const items = list.split(',').map((item) => item.trim().replaceAll('"', ''));
  return items.filter((item) => item !== '');
}

test('the throttling codes of the AWS SDK are outages', () => {
  const codes = getSdkList('THROTTLING_ERROR_CODES');
  expect(codes).toContain('ThrottlingException');
  for (const code of codes) {
    expect([code, isTransient(answer(code), false), isOutage(answer(code))]).toEqual([code, true, true]);
  }
});

test('the transient codes, statuses and network errors of the AWS SDK are transient', () => {
  const codes = getSdkList('TRANSIENT_ERROR_CODES');
  const statuses = getSdkList('TRANSIENT_ERROR_STATUS_CODES').map(Number);
  const network = [...getSdkList('NODEJS_TIMEOUT_ERROR_CODES'), ...getSdkList('NODEJS_NETWORK_ERROR_CODES')];
  expect([codes[0], statuses[0], network[0]]).toEqual(['TimeoutError', 500, 'ECONNRESET']);
  expect(codes.filter((code) => !isTransient(answer(code), true))).toEqual([]);
  expect(statuses.filter((status) => !isTransient(answer('Unknown', status), true))).toEqual([]);
  expect(network.filter((code) => !isTransient(failure(code), true))).toEqual([]);
});

test.each([
  { code: 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC', before: true, after: true },
  { code: 'EPROTO', before: false, after: true },
  { code: 'HPE_CR_EXPECTED', before: false, after: true },
  { code: 'EADDRNOTAVAIL', before: false, after: true },
  { code: 'ECONNREFUSED', before: false, after: true },
  { code: 'ENOTFOUND', before: false, after: true },
  { code: 'ECONNRESET', before: true, after: true },
  { code: 'CERT_HAS_EXPIRED', before: false, after: false },
  { code: 'ERR_TLS_CERT_ALTNAME_INVALID', before: false, after: false },
  { code: 'SELF_SIGNED_CERT_IN_CHAIN', before: false, after: false },
  { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', before: false, after: false },
])('isTransient($code): $before before the first answer, $after after it', ({ code, before, after }) => {
  expect([isTransient(failure(code), false), isTransient(failure(code), true)]).toEqual([before, after]);
});

test.each([
  { title: 'a lost connection', error: failure('ECONNRESET'), limit: 'time' },
  { title: 'SlowDown', error: answer('SlowDown', 503), limit: 'time' },
  { title: 'throttling by KMS', error: answer('ThrottlingException'), limit: 'time' },
  { title: 'a gateway without a server', error: answer('BadGateway', 502), limit: 'time' },
  { title: 'an internal error', error: answer('InternalError', 500), limit: 'tries' },
  { title: 'a page that is not XML', error: answer('MalformedAnswer', 200), limit: 'tries' },
])('the $limit limits the retries after $title', ({ error, limit }) => {
  expect(isOutage(error)).toBe(limit === 'time');
});
