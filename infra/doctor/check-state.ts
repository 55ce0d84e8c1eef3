import { isOtherRegion } from '../../src/s3/errors';
import { S3Error } from '../../src/s3/store';
import type { StateSettings } from '../settings/state';
import type { KeyState } from './account';
import { error, ok, warning, type Check, type Finding } from './check';

/** Keys of Pulumi's state begin so. Few objects have this prefix, so that a listing of it is short. */
const STATE_PREFIX = '.pulumi/meta.yaml';

/** The bucket with the state of the stack, without which Pulumi does not start. */
export const stateCheck: Check = {
  name: 'state',
  run: async ({ account, settings, state: { backend } }) => {
    if (backend.kind === 'unknown') {
      return [
        ok('not checked: neither PULUMI_BACKEND_URL nor backend.url in Pulumi.yaml names it; see "pulumi whoami -v"'),
      ];
    }
    if (backend.kind === 'elsewhere') return [ok(`not checked: it is in ${backend.url}, not in a bucket of AWS`)];
    const { bucket, folder, region = settings.region } = backend;
    try {
      await account.listBucket(bucket, region, `${folder}${STATE_PREFIX}`, 'shell');
    } catch (cause) {
      return [judgeStateError(cause, bucket, { region, isNamed: backend.region !== undefined })];
    }
    if (await account.isVersioned(bucket, region)) return [ok(`s3://${bucket} exists, with versioning`)];
    return [
      warning(
        `s3://${bucket} has no versioning, so a state that is lost or damaged cannot be restored`,
        `aws s3api put-bucket-versioning --bucket ${bucket} --versioning-configuration Status=Enabled --region ${region}`,
      ),
    ];
  },
};

/** @param isNamed whether the URL of the state names the region. Without it, Pulumi takes that of the shell */
function judgeStateError(
  cause: unknown,
  bucket: string,
  { region, isNamed }: { region: string; isNamed: boolean },
): Finding {
  if (!(cause instanceof S3Error)) throw cause;
  if (isOtherRegion(cause)) {
    const fix = `set PULUMI_BACKEND_URL (or backend.url in Pulumi.yaml) to s3://${bucket}?region=${cause.region}`;
    return isNamed
      ? error(`the bucket of the state, ${bucket}, is in ${cause.region}, but its URL has ${region}`, fix)
      : warning(
          `not checked: the bucket of the state, ${bucket}, is in ${cause.region}, and its URL names no region`,
          fix,
        );
  }
  if (cause.code === 'NoSuchBucket') {
    return error(
      `the bucket of the state, ${bucket}, does not exist`,
      `correct PULUMI_BACKEND_URL (or backend.url in Pulumi.yaml), or create the bucket (docs/ci.md): aws s3 mb s3://${bucket} --region ${region}`,
    );
  }
  if (cause.code !== 'AccessDenied') throw cause;
  return error(
    `the bucket of the state, ${bucket}, denies s3:ListBucket to the identity of the shell, so Pulumi cannot read the state`,
    'set AWS_PROFILE to an identity that may use the state, or correct PULUMI_BACKEND_URL (or backend.url in Pulumi.yaml)',
  );
}

/** The key that encrypts the secrets in the state and in the stack file. */
export const secretsCheck: Check = {
  name: 'secrets',
  run: async ({ account, settings, state: { secrets } }) => {
    if (secrets.kind === 'key') {
      const region = secrets.region ?? settings.region;
      return [judgeKey(secrets.id, region, await account.keyState(secrets.id, region))];
    }
    return [judgeSecrets(secrets, settings)];
  },
};

/** Only an enabled key decrypts: https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html (2026-11-27) */
export function judgeKey(id: string, region: string, state: KeyState | undefined): Finding {
  const start = `the key of the secrets, ${id}`;
  if (state === 'Enabled') return ok(`${id} is enabled`);
  if (state === undefined) {
    return error(`${start}, does not exist in ${region}`, 'correct secretsprovider in the stack file');
  }
  const enable = `aws kms enable-key --key-id ${id} --region ${region}`;
  const fixes: Partial<Record<KeyState, string>> = {
    Disabled: enable,
    PendingDeletion: `aws kms cancel-key-deletion --key-id ${id} --region ${region}, then: ${enable}`,
  };
  return error(
    `${start}, is in the state ${state}, so Pulumi cannot decrypt the secrets of the stack`,
    fixes[state] ?? `aws kms describe-key --key-id ${id} --region ${region}`,
  );
}

function judgeSecrets(
  secrets: Exclude<StateSettings['secrets'], { kind: 'key' }>,
  { stack, protect }: { stack: string; protect: boolean },
): Finding {
  if (secrets.kind === 'none') return ok('not checked: the stack file names no provider of secrets');
  if (secrets.kind === 'elsewhere') return ok(`not checked: ${secrets.provider} encrypts them, not a key of AWS`);
  if (!protect) return ok('a passphrase encrypts them');
  return warning(
    'a passphrase encrypts the secrets of a protected stack: without it they are lost, and it cannot be withdrawn from a person',
    `encrypt them with a key of KMS (docs/ci.md): pulumi stack change-secrets-provider --stack ${stack} 'awskms:///KEY_ARN?region=REGION'`,
  );
}
