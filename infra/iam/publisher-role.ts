import * as eks from '@pulumi/aws/eks';
import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import { AUDIENCE, findIdentityProvider } from './identity-provider';
import { federatedTrust, policyDocument, type PolicyStatement } from './policy-document';
import { prunerStatements, publisherStatements, type RepositoryRef } from './repository-policies';

export interface PublisherRoleArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  repository: RepositoryRef;
  /** URL of the issuer of the tokens, of which the account has an IAM provider. */
  publisherIssuer: string;
  /** Subjects of the tokens that may publish. */
  publisherSubjects: string[];
  /** Subjects of the tokens that may also delete files of former releases. Default: none, and no pruner role. */
  prunerSubjects?: string[];
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
    const { publisherIssuer: issuer, repository, publisherSubjects, prunerSubjects = [], title = name } = args;
    const hint = `If the account has none, create it with infra/bootstrap, or: aws iam create-open-id-connect-provider --client-id-list ${AUDIENCE} --url ${issuer}`;
    const shared = { ...args, provider: findIdentityProvider(issuer, hint, { parent: this }) };
    this.roleArn = this.role(name, {
      ...shared,
      subjects: publisherSubjects,
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
    { publisherIssuer, provider, description, subjects, statements, protect, cluster }: RoleArgs,
  ): pulumi.Output<string> {
    const host = publisherIssuer.replace(/^https:\/\//, '');
    const role = new iam.Role(
      name,
      {
        description,
        assumeRolePolicy: federatedTrust(provider, {
          StringEquals: { [`${host}:aud`]: AUDIENCE, [`${host}:sub`]: subjects },
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
}

interface RoleArgs extends PublisherRoleArgs {
  provider: pulumi.Input<string>;
  subjects: string[];
  description: string;
  statements: PolicyStatement[];
}
