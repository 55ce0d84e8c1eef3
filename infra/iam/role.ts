import * as iam from '@pulumi/aws/iam';
import type * as pulumi from '@pulumi/pulumi';
import { managedPolicyArn } from './policy-document';

export interface RoleWithPolicies {
  role: iam.Role;
  /** To be waited for before the role is used, and deleted after what uses it. */
  attachments: iam.RolePolicyAttachment[];
}

/** What nodes of managed groups may do: join, have addresses for pods, and pull images. */
export const NODE_GROUP_POLICIES = [
  'AmazonEKSWorkerNodePolicy',
  'AmazonEKS_CNI_Policy',
  'AmazonEC2ContainerRegistryPullOnly',
] as const;

/** What nodes of Auto Mode may do. Their network is not their business. */
export const AUTO_MODE_NODE_POLICIES = [
  'AmazonEKSWorkerNodeMinimalPolicy',
  'AmazonEC2ContainerRegistryPullOnly',
] as const;

/** A role with policies that AWS maintains. */
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
