import * as eks from '@pulumi/aws/eks';
import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import { createIdentityProvider, findIdentityProvider } from './identity-provider';
import { federatedTrust, policyDocument, type PolicyStatement } from './policy-document';
import { prunerStatements, publisherStatements, type RepositoryRef } from './repository-policies';
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

/**
 * The roles that CI assumes to publish models, and to delete those of former releases. It uses OIDC tokens, so there is no
 * access key that could leak.
 */
export class PublisherRole extends pulumi.ComponentResource {
  readonly roleArn: pulumi.Output<string>;
  /** Undefined without prunerSubjects. */
  readonly prunerRoleArn?: pulumi.Output<string>;

  constructor(name: string, args: PublisherRoleArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:PublisherRole', name, {}, options);
    const { publisher, repository, title = name } = args;
    const { subjects, prunerSubjects } = publisher;
    const shared = { ...args, provider: this.provider(name, publisher) };
    this.roleArn = this.role(name, {
      ...shared,
      subjects,
      description: `Publishes models of ${title}`,
      statements: publisherStatements(repository),
    });
    if (prunerSubjects.length > 0) {
      this.prunerRoleArn = this.role(`${name}-pruner`, {
        ...shared,
        subjects: prunerSubjects,
        description: `Deletes models of former releases of ${title}`,
        statements: prunerStatements(repository),
      });
    }
    this.registerOutputs({ roleArn: this.roleArn, prunerRoleArn: this.prunerRoleArn });
  }

  private role(
    name: string,
    { publisher, provider, description, subjects, statements, protect, cluster }: RoleArgs,
  ): pulumi.Output<string> {
    const issuer = publisher.issuer.replace(/^https:\/\//, '');
    const role = new iam.Role(
      name,
      {
        description,
        assumeRolePolicy: federatedTrust(provider, {
          StringEquals: { [`${issuer}:aud`]: publisher.audience, [`${issuer}:sub`]: subjects },
        }),
      },
      { parent: this, protect },
    );
    // Children would inherit the protection. Another cluster replaces its access entry.
    const ofRole = { parent: role, protect: false };
    new iam.RolePolicy(name, { role: role.id, policy: policyDocument(statements) }, ofRole);
    if (cluster !== undefined) {
      new eks.AccessEntry(
        name,
        { clusterName: cluster.name, principalArn: role.arn, kubernetesGroups: [cluster.group] },
        ofRole,
      );
    }
    return role.arn;
  }

  private provider(
    name: string,
    { issuer, audience, providerArn, createProvider }: PublisherSettings,
  ): pulumi.Input<string> {
    if (createProvider === true) return createIdentityProvider(`${name}-issuer`, issuer, audience, { parent: this });
    return providerArn ?? findIdentityProvider(issuer, MISSING, { parent: this });
  }
}

const MISSING =
  'If the account has none, set createPublisherOidcProvider to true in one of its stacks; if you may not look it up, set publisherOidcProviderArn';

interface RoleArgs extends PublisherRoleArgs {
  provider: pulumi.Input<string>;
  description: string;
  subjects: string[];
  statements: PolicyStatement[];
}
