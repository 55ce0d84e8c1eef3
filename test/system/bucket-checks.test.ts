import { LOCAL_CREDENTIALS, LOCAL_REGION } from '../../src/local/s3-server';
import { checkBucket } from '../../tools/bucket-checks';
import { openBucket } from '../support/s3';
import { describeOnEachS3 } from '../support/versitygw';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Checks that only AWS can do, or that would take long. */
const SKIPPED = {
  'an object is encrypted with the KMS key': 'no --kms-key',
  'a request to another region finds the bucket': 'only AWS has other regions',
  'writes succeed although S3 limits their rate': 'no --throttle',
};

describeOnEachS3('npm run check-bucket with', (start) => {
  test('passes every check that the server can do, and leaves no objects', async () => {
    const { endpoint } = await start(scratch);
    const bucket = 'check-bucket';
    const store = await openBucket(scratch, endpoint, bucket);
    const results = await checkBucket({
      bucket,
      prefix: 'checks',
      endpointUrl: endpoint,
      region: LOCAL_REGION,
      credentials: LOCAL_CREDENTIALS,
      attempts: 3, // By default, a write with a wrong checksum is repeated for seconds.
    });
    expect(results.flatMap(({ name, error }) => (error === undefined ? [] : `${name}: ${error.message}`))).toEqual([]);
    expect(results.length).toBeGreaterThanOrEqual(19);
    const skipped = results.flatMap(({ name, skipped }) => (skipped === undefined ? [] : [[name, skipped]]));
    expect(Object.fromEntries(skipped)).toEqual(SKIPPED);
    expect(await store.list('')).toEqual([]);
  });
});
