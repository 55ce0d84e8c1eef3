import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import { federatedTrust, policyDocument } from './policy-document';
import { agentStatements, type RepositoryRef } from './repository-policies';

export interface TritonAccessArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  repository: RepositoryRef;
  /** IAM identity provider for the service accounts of the cluster. */
  oidcProviderArn: pulumi.Input<string>;
  namespace: string;
  /** Service account of Triton's pods. */
  serviceAccount: string;
}

/**
 * The role of the agents beside Triton (IRSA), which may only read the model repository. docs/decisions.md says why it does not
 * use EKS Pod Identity.
 */
export class TritonAccess extends pulumi.ComponentResource {
  readonly roleArn: pulumi.Output<string>;
  /** Must exist before the pods start. */
  readonly ready: pulumi.Resource[];

  constructor(name: string, args: TritonAccessArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:index:TritonAccess', name, {}, options);
    const { namespace, serviceAccount } = args;
    const condition = getIssuer(args.oidcProviderArn).apply((issuer) => ({
      StringEquals: {
        [`${issuer}:aud`]: 'sts.amazonaws.com',
        [`${issuer}:sub`]: `system:serviceaccount:${namespace}:${serviceAccount}`,
      },
    }));
    const role = new iam.Role(
      name,
      {
        description: `Triton of ${args.title ?? name} reads its models`,
        assumeRolePolicy: federatedTrust(args.oidcProviderArn, condition),
      },
      { parent: this },
    );
    const policy = new iam.RolePolicy(
      name,
      { role: role.id, policy: policyDocument(agentStatements(args.repository)) },
      { parent: role },
    );
    this.roleArn = role.arn;
    this.ready = [policy];
    this.registerOutputs({ roleArn: this.roleArn });
  }
}

/** Host and path of the issuer, as in the keys of policy conditions. */
const getIssuer = (providerArn: pulumi.Input<string>): pulumi.Output<string> =>
  pulumi.output(providerArn).apply((arn) => arn.slice(arn.indexOf('oidc-provider/') + 'oidc-provider/'.length));
