import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import * as iam from '@pulumi/aws/iam';
import type * as s3 from '@pulumi/aws/s3';
import * as pulumi from '@pulumi/pulumi';
import { ciRoleName, type CiRole } from '../iam/ci-roles';
import { AUDIENCE, createIdentityProvider, findIdentityProvider } from '../iam/identity-provider';
import { federatedTrust } from '../iam/policy-document';
import { createBucket } from '../storage/bucket';
import { EncryptionKey } from '../storage/encryption-key';
import { GITHUB_ISSUER } from '../trust-subject';
import { boundaryPolicy, deployPolicy, previewPolicy, type PolicyValues } from './policies';

/** Values of the stack file in infra/bootstrap, which Pulumi.yaml there describes. */
export interface BootstrapSettings {
  stack: string;
  region: string;
  repository: string;
  /** ARN of the IAM provider of GitHub; undefined creates it. */
  providerArn: string | undefined;
  previews: boolean;
  promotesFrom: string;
}

/** Longest session that a workflow may request. */
const SESSION_SECONDS = 4 * 60 * 60;

/** Pulumi's history and its backups, of which each update adds one. */
const HISTORY = ['.pulumi/history/', '.pulumi/backups/'];
const HISTORY_DAYS = 365;
const OLD_STATE_DAYS = 90;

/** Asks before any resource is created, so that an account without the provider gets none. */
export const findGithubProvider = (): Promise<string> =>
  findIdentityProvider(GITHUB_ISSUER, 'If the account has none: pulumi config set createOidcProvider true');

/**
 * Creates what must exist before a stack and its workflows: a bucket and a key for its state, and the roles of CI. A stack
 * cannot create these, because they create the stack.
 */
export function bootstrap(settings: BootstrapSettings): Record<string, pulumi.Input<string>> {
  const { stack, region, repository } = settings;
  requireRepository(repository);
  const { accountId } = getCallerIdentityOutput();
  const key = new EncryptionKey('state', {
    description: `State of triton-${stack}, and the secrets in it`,
    accountId,
    region,
    // The roles of CI may change keys with the tag of their stack, and give this tag only to keys without a tag `stack`.
    tags: { stack: `${stack}-state` },
    protect: true,
  });
  const bucket = createStateBucket(key);
  const provider = settings.providerArn ?? createIdentityProvider('github', GITHUB_ISSUER);
  const values: PolicyValues = { stack, region, accountId, stateBucket: bucket.bucket, stateKeyArn: key.arn };
  const boundary = new iam.Policy('boundary', { policy: boundaryPolicy(values) });
  const createRole = (name: CiRole, subject: string, policy: pulumi.Output<string>): pulumi.Output<string> => {
    const host = GITHUB_ISSUER.replace('https://', '');
    const role = new iam.Role(name, {
      name: ciRoleName(stack, name),
      description: `CI of triton-${stack}: ${name}`,
      maxSessionDuration: SESSION_SECONDS,
      permissionsBoundary: boundary.arn,
      assumeRolePolicy: federatedTrust(provider, {
        StringEquals: { [`${host}:aud`]: AUDIENCE, [`${host}:sub`]: `repo:${repository}:${subject}` },
      }),
    });
    new iam.RolePolicy(name, { role: role.id, policy }, { parent: role });
    return role.arn;
  };
  return {
    backendUrl: pulumi.interpolate`s3://${bucket.bucket}?region=${region}`,
    secretsProvider: pulumi.interpolate`awskms:///${key.arn}?region=${region}`,
    publisherSubject: `repo:${repository}:environment:${stack}-publish`,
    deployRoleArn: createRole('deploy', `environment:${stack}`, deployPolicy(values, settings.promotesFrom)),
    driftRoleArn: createRole('drift', `environment:drift-${stack}`, previewPolicy(values)),
    ...(settings.previews ? { previewRoleArn: createRole('preview', 'pull_request', previewPolicy(values)) } : {}),
  };
}

function createStateBucket(key: EncryptionKey): s3.Bucket {
  const rules = HISTORY.map((prefix, index) => ({
    id: `history-${index}`,
    filter: { prefix },
    expiration: { days: HISTORY_DAYS },
  }));
  const oldVersions = { id: 'old-versions', noncurrentVersionExpiration: { noncurrentDays: OLD_STATE_DAYS } };
  return createBucket('state', { keyArn: key.arn, rules: [...rules, oldVersions] }, { protect: true }).bucket;
}

function requireRepository(repository: string): void {
  if (/^[^:/*?\s]+\/[^:/*?\s]+$/.test(repository)) return;
  throw new pulumi.RunError(
    `repository: is ${JSON.stringify(repository)}; allowed: OWNER@ID/NAME@ID, or OWNER/NAME if the repository is older than July 2026\n` +
      '  -> gh api /repos/OWNER/NAME --jq \'"\\(.owner.login)@\\(.owner.id)/\\(.name)@\\(.id)"\'',
  );
}
