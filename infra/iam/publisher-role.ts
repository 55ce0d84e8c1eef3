import * as eks from '@pulumi/aws/eks';
import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import { federatedTrust, policyDocument } from './policy-document';
import { publisherStatements, type RepositoryRef } from './repository-policies';
import type { PublisherSettings } from '../settings/types';

export interface PublisherRoleArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  repository: RepositoryRef;
  /** Issuer, audience and subjects of the accepted tokens. */
  publisher: PublisherSettings;
  /** EKS cluster in which the publisher finds the replicas, as a member of the Kubernetes group. Default: none. */
  cluster?: { name: pulumi.Input<string>; group: string };
  /** Pulumi refuses to delete the role, whose ARN the workflows of CI contain. Default: false. */
  protect?: boolean;
}

/** The role that CI assumes to publish models. It uses an OIDC token, so there is no access key that could leak. */
export class PublisherRole extends pulumi.ComponentResource {
  readonly roleArn: pulumi.Output<string>;

  constructor(name: string, args: PublisherRoleArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:PublisherRole', name, {}, options);
    const { publisher } = args;
    const provider = publisher.providerArn ?? this.provider(name, publisher);
    const issuer = publisher.issuer.replace(/^https:\/\//, '');
    const role = new iam.Role(
      name,
      {
        description: `Publishes models of ${args.title ?? name}`,
        assumeRolePolicy: federatedTrust(provider, {
          StringEquals: { [`${issuer}:aud`]: publisher.audience },
          StringLike: { [`${issuer}:sub`]: publisher.subjects },
        }),
      },
      { parent: this, protect: args.protect },
    );
    // Children would inherit the protection. Another cluster replaces its access entry.
    const ofRole = { parent: role, protect: false };
    new iam.RolePolicy(name, { role: role.id, policy: policyDocument(publisherStatements(args.repository)) }, ofRole);
    if (args.cluster !== undefined) {
      new eks.AccessEntry(
        name,
        { clusterName: args.cluster.name, principalArn: role.arn, kubernetesGroups: [args.cluster.group] },
        ofRole,
      );
    }
    this.roleArn = role.arn;
    this.registerOutputs({ roleArn: this.roleArn });
  }

  private provider(name: string, { issuer, audience }: PublisherSettings): pulumi.Output<string> {
    return new iam.OpenIdConnectProvider(`${name}-issuer`, { url: issuer, clientIdLists: [audience] }, { parent: this })
      .arn;
  }
}
