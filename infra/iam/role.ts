import * as iam from '@pulumi/aws/iam';
import type * as pulumi from '@pulumi/pulumi';
import { managedPolicyArn } from './policy-document';

export interface RoleWithPolicies {
  role: iam.Role;
  /** Must exist before the role is used, and must be deleted after the resources that use the role. */
  attachments: iam.RolePolicyAttachment[];
}

/** Policies of nodes of managed groups, which join the cluster, assign addresses to pods and pull images. */
export const NODE_GROUP_POLICIES = [
  'AmazonEKSWorkerNodePolicy',
  'AmazonEKS_CNI_Policy',
  'AmazonEC2ContainerRegistryPullOnly',
] as const;

/** Policies of nodes of Auto Mode, which need no network permissions. */
export const AUTO_MODE_NODE_POLICIES = [
  'AmazonEKSWorkerNodeMinimalPolicy',
  'AmazonEC2ContainerRegistryPullOnly',
] as const;

export function roleWithPolicies(
  name: string,
  region: string,
  { description, trust, policies }: { description: string; trust: pulumi.Input<string>; policies: readonly string[] },
  parent: pulumi.Resource,
): RoleWithPolicies {
  const role = new iam.Role(name, { description, assumeRolePolicy: trust }, { parent });
  const attachments = policies.map(
    (policy) =>
      new iam.RolePolicyAttachment(
        `${name}-${policy}`,
        { role: role.name, policyArn: managedPolicyArn(region, policy) },
        { parent: role },
      ),
  );
  return { role, attachments };
}
