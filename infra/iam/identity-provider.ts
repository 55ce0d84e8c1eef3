import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';

/** Audience of the tokens of CI, which the action of AWS for GitHub requests by default. */
export const AUDIENCE = 'sts.amazonaws.com';

/** Creates the IAM provider of an issuer, of which an account has at most one. */
export function createIdentityProvider(name: string, issuer: string): pulumi.Output<string> {
  const args = { url: issuer, clientIdLists: [AUDIENCE] };
  // Otherwise AWS would reject the tokens of every other stack and repository that uses the account.
  return new iam.OpenIdConnectProvider(name, args, { retainOnDelete: true }).arn;
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
