import * as eks from '@pulumi/aws/eks';
import type * as pulumi from '@pulumi/pulumi';
import { accessPolicyArn } from '../iam/policy-document';

export interface ClusterAccessArgs {
  clusterName: pulumi.Input<string>;
  /** Role or user that is admitted. */
  principalArn: pulumi.Input<string>;
  region: string;
  /** Name of the EKS access policy, which is granted in the whole cluster. */
  policy: string;
  /** EC2 for nodes. Default: STANDARD, for people and programs. */
  type?: string;
}

/** Admits a role or user to an EKS cluster. */
export function createAccessEntry(
  name: string,
  { clusterName, principalArn, region, policy, type }: ClusterAccessArgs,
  parent: pulumi.Resource,
): eks.AccessPolicyAssociation {
  const entry = new eks.AccessEntry(name, { clusterName, principalArn, type }, { parent });
  return new eks.AccessPolicyAssociation(
    name,
    {
      clusterName,
      principalArn: entry.principalArn,
      policyArn: accessPolicyArn(region, policy),
      accessScope: { type: 'cluster' },
    },
    // A changed scope would need "deleteBeforeReplace", because an entry has one association with each policy. The scope
    // never changes here, and nodes of a cluster that is replaced need their association until the new cluster serves.
    { parent: entry },
  );
}
