import { DescribeRepositoriesCommand, ECRClient, GetAuthorizationTokenCommand } from '@aws-sdk/client-ecr';
import { UserError } from '../../src/core/errors';
import { openAwsSession } from '../doctor/aws';
import type { AwsIdentity } from '../settings/aws-identity';

/** The ECR registry of an account, with a password that expires after 12 hours. */
export interface EcrLogin {
  /** URIs of the repositories, in the given order. */
  uris: string[];
  user: string;
  password: string;
}

/** The policy with the rights of `npm run mirror-image`. */
export const MIRROR_POLICY = 'docs/iam/mirror.json';

const DENIED = 'AccessDeniedException';

/**
 * Signs in to ECR with the identity of Pulumi's AWS provider.
 * @throws UserError if a repository is missing, or AWS refuses a request
 */
export async function signInToEcr(
  { region, stack }: { region: string; stack: string },
  identity: AwsIdentity,
  repositories: readonly string[],
): Promise<EcrLogin> {
  const session = await openAwsSession(region, identity, 'mirror-image');
  const ecr = new ECRClient(session.config);
  try {
    const uris: string[] = [];
    for (const name of repositories) {
      const found = await ecr.send(new DescribeRepositoriesCommand({ repositoryNames: [name] }));
      uris.push(found.repositories?.[0]?.repositoryUri ?? '');
    }
    const { authorizationData = [] } = await ecr.send(new GetAuthorizationTokenCommand({}));
    const token = Buffer.from(authorizationData[0]?.authorizationToken ?? '', 'base64').toString();
    const [user = '', password = ''] = token.split(':');
    return { uris, user, password };
  } catch (error) {
    throw explain(error, stack);
  } finally {
    ecr.destroy();
    session.close();
  }
}

function explain(error: unknown, stack: string): UserError {
  if (error instanceof UserError) return error;
  const { name, message } = error as Error;
  const options = (hint: string): ConstructorParameters<typeof UserError>[1] => ({ hint, cause: error });
  if (name === 'RepositoryNotFoundException') {
    return new UserError(`stack ${stack} has no ECR repository yet: ${message}`, options('run "pulumi up" first'));
  }
  if (name === DENIED) return new UserError(`ECR: ${message}`, options(`allow it: ${MIRROR_POLICY} has all rights`));
  return new UserError(
    `ECR: ${name}: ${message}`,
    options('sign in to AWS (AWS_PROFILE, "aws sso login"), and check the network and HTTPS_PROXY'),
  );
}
