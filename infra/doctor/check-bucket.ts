import { headKey } from '../../src/release/location';
import { isOtherRegion } from '../../src/s3/errors';
import { S3Error } from '../../src/s3/store';
import { error, ok, warning, type Check } from './check';

/** The existing bucket of the models. A created one gets a name that is free. */
export const bucketCheck: Check = {
  name: 'bucket',
  run: async ({ account, settings: { stack, modelRepository: repository } }) => {
    if (repository.kind === 'create') return [ok('the stack creates it, with a name that is free')];
    if (repository.kind === 'elsewhere') return [ok('not checked: it is not in AWS')];
    const { bucket, region } = repository;
    try {
      await account.listBucket(bucket, region, headKey(repository), 'provider');
      return [ok(`${bucket} exists`)];
    } catch (cause) {
      if (!(cause instanceof S3Error)) throw cause;
      if (cause.code === 'NoSuchBucket') {
        return [
          error(`${bucket} does not exist`, `correct bucketName, or: aws s3 mb s3://${bucket} --region ${region}`),
        ];
      }
      if (isOtherRegion(cause)) {
        return [
          error(
            `${bucket} is in ${cause.region}, but the stack file has ${region}`,
            `correct bucketName, or: pulumi config set --stack ${stack} bucketRegion ${cause.region}`,
          ),
        ];
      }
      if (cause.code !== 'AccessDenied') throw cause;
      return [
        warning(
          `not checked: the caller lacks the right s3:ListBucket on ${bucket}, or another account owns the bucket`,
          'correct bucketName, or allow s3:ListBucket in the policies of the caller and of the bucket',
        ),
      ];
    }
  },
};
