import type { ProblemList } from '../../src/core/problems';

/** With which identity Pulumi's AWS provider works, if not with that of the shell. */
export interface AwsIdentity {
  /** Profile of the AWS CLI's configuration: `aws:profile`. */
  profile?: string;
  /** Role that the provider assumes: `aws:assumeRoles`. */
  roleArn?: string;
}

interface AssumedRole {
  roleArn?: string;
  externalId?: string;
}

/** Keys of the AWS provider that choose the identity. */
export const IDENTITY_KEYS = ['profile', 'assumeRole', 'assumeRoles', 'assumeRoleWithWebIdentity'] as const;

export type IdentityValues = Readonly<Partial<Record<(typeof IDENTITY_KEYS)[number], unknown>>>;

/**
 * Reads the identity of the AWS provider, with which the kubeconfig of a created cluster must sign in too. Reports an
 * identity that "aws eks get-token" cannot have.
 */
export function awsIdentity(values: IdentityValues, problems: ProblemList): AwsIdentity {
  const { profile, assumeRole, assumeRoles, assumeRoleWithWebIdentity } = values;
  const roles = [assumeRole ?? [], assumeRoles ?? []].flat() as AssumedRole[];
  const [role] = roles;
  if (roles.length > 1 || role?.externalId !== undefined || assumeRoleWithWebIdentity !== undefined) {
    const key = assumeRoleWithWebIdentity === undefined ? 'assumeRoles' : 'assumeRoleWithWebIdentity';
    problems.add(`aws:${key}`, 'is an identity with which "aws eks get-token" cannot sign in to the cluster', {
      allowed: 'aws:assumeRoles with one item, without externalId',
      hint: 'describe the roles in a profile of ~/.aws/config, and set aws:profile to its name',
    });
  }
  return { profile: typeof profile === 'string' ? profile : undefined, roleArn: role?.roleArn };
}
