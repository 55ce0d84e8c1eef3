import { randomBytes } from 'node:crypto';
import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError } from '../src/core/errors';
import { parseLocation } from '../src/release/location';
import { checkBucket, type CheckResult } from './bucket-checks';

const FLAGS = {
  bucket: { value: 's3://NAME/PREFIX', help: 'the random prefix is created under PREFIX' },
  region: { value: 'NAME', help: 'region of the bucket (default: as sync-models)' },
  'endpoint-url': { value: 'URL', help: 'an S3 API other than that of AWS' },
  'kms-key': { value: 'KEY', help: 'id or ARN of a KMS key, for the check of the encryption' },
  throttle: { help: 'also send 20,000 writes, so that S3 limits their rate' },
} as const;

const LINE = {
  name: 'npm run check-bucket',
  about:
    'Checks that a bucket behaves as the publisher needs: conditional writes and deletes, checksums, encryption, regions. For a nightly run against real AWS, which no test of this repository uses. Writes about 1,100 small and 5 large objects under a random prefix and deletes them again; in a bucket with versioning, old versions remain until a lifecycle rule deletes them.',
  flags: FLAGS,
  notes: `Exit codes: 0 every check passed or was skipped, 1 a check failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags) => {
  if (flags.bucket === undefined)
    throw new UsageError('--bucket is missing', { hint: 'add --bucket s3://NAME/PREFIX' });
  const { bucket, prefix } = parseLocation(flags.bucket);
  const options = {
    bucket,
    prefix: `${prefix}/check-${randomBytes(6).toString('hex')}`,
    region: flags.region,
    endpointUrl: flags['endpoint-url'],
    kmsKey: flags['kms-key'],
    throttle: flags.throttle,
  };
  const results = await checkBucket(options, (result) => process.stdout.write(`${describe(result)}\n`));
  return results.some(({ error }) => error !== undefined) ? EXIT.failed : EXIT.ok;
});

function describe({ name, skipped, error }: CheckResult): string {
  if (error !== undefined) return `FAILED   ${name}: ${error.message}`;
  return skipped === undefined ? `ok       ${name}` : `skipped  ${name}: ${skipped}`;
}
