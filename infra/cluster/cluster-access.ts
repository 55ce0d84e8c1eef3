import * as eks from '@pulumi/aws/eks';
import type * as pulumi from '@pulumi/pulumi';
import { accessPolicyArn } from '../iam/policy-document';

export interface ClusterAccessArgs {
  clusterName: pulumi.Input<string>;
  /** Role or user that is admitted. */
  principalArn: pulumi.Input<string>;
  region: string;
  /** Name of AWS's policy for Kubernetes, which then holds in the whole cluster. */
  policy: string;
  /** Of nodes: EC2. Default: STANDARD, for people and programs. */
  type?: string;
}

/** Admits a role or user to an EKS cluster. */
export function admitToCluster(
  name: string,
  { clusterName, principalArn, region, policy, type }: ClusterAccessArgs,
  parent: pulumi.Resource,
): eks.AccessPolicyAssociation {
  const entry = new eks.AccessEntry(
    name,
    { clusterName, principalArn, ...(type === undefined ? {} : { type }) },
    { parent },
  );
  return new eks.AccessPolicyAssociation(
    name,
    {
      clusterName,
      principalArn: entry.principalArn,
      policyArn: accessPolicyArn(region, policy),
      accessScope: { type: 'cluster' },
    },
    // Its scope is no part of its identity, so a new one cannot be beside the old one.
    { parent: entry, deleteBeforeReplace: true },
  );
}
