import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';

/** Creates the IAM provider of an issuer, of which an account has at most one. */
export function createIdentityProvider(
  name: string,
  issuer: string,
  audience: string,
  options?: pulumi.CustomResourceOptions,
): pulumi.Output<string> {
  // Without retainOnDelete, AWS would reject the tokens of every other stack and repository that uses the account.
  const retained = { ...options, retainOnDelete: true };
  return new iam.OpenIdConnectProvider(name, { url: issuer, clientIdLists: [audience] }, retained).arn;
}

/**
 * Returns the ARN of the IAM provider that the account has for an issuer.
 * @param hint what to set if there is none
 * @throws RunError if AWS reports none
 */
export async function findIdentityProvider(
  issuer: string,
  hint: string,
  options?: pulumi.InvokeOptions,
): Promise<string> {
  try {
    return (await iam.getOpenIdConnectProvider({ url: issuer }, options)).arn;
  } catch (error) {
    throw new pulumi.RunError(
      `cannot find the IAM provider of ${issuer} in this account: ${(error as Error).message}. ${hint}`,
    );
  }
}
