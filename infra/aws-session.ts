import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { openAgent } from '../src/s3/agent';
import { CredentialsError, CredentialSource } from '../src/s3/credentials';
import { readSettings } from '../src/s3/endpoint';
import type { Credentials } from '../src/s3/store';
import { getHomeRegion } from './iam/policy-document';
import type { AwsIdentity } from './settings/aws-identity';

/** Limits for one request, in ms. Shorter than the time for one check, so that a lost request is sent again. */
const TIMEOUTS = { connectionTimeout: 4000, requestTimeout: 8000, throwOnRequestTimeout: true };
const CONNECTIONS = 16;
const IDLE_TIMEOUT_MS = 10_000;

/** How clients of the AWS SDK send requests. */
interface ClientConfig {
  region: string | undefined;
  requestHandler: NodeHttpHandler;
  credentials: () => Promise<Credentials>;
}

export interface AwsSession {
  config: ClientConfig;
  /** The same in a region that every account has: one without the region of the stack is known only to others. */
  homeConfig: ClientConfig;
  credentials: () => Promise<Credentials>;
  /** Those with which the Pulumi CLI opens the state, without `aws:assumeRoles`. */
  shellCredentials: () => Promise<Credentials>;
  close: () => void;
}

/**
 * Signs in to AWS with the identity of Pulumi's AWS provider.
 * @param region of the stack
 * @param name of the command, for CloudTrail
 * @throws UserError if a setting of the AWS tools is wrong
 */
export async function openAwsSession(
  region: string,
  { profile, roleArn }: AwsIdentity,
  name: string,
): Promise<AwsSession> {
  // The warning about the version of Node is for those who use the SDK in their own code.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  // The credential chain and the SDK read the variable.
  if (profile !== undefined) process.env['AWS_PROFILE'] = profile;
  const home = getHomeRegion(region);
  const { caFile } = await readSettings({ region }, process.env);
  const agent = openAgent({
    secure: true,
    connections: CONNECTIONS,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
    caFile,
    env: process.env,
  });
  const requestHandler = new NodeHttpHandler({ ...TIMEOUTS, httpsAgent: agent as never });
  const source = new CredentialSource(undefined, () => Promise.resolve({ region, agent }));
  const shellCredentials = async (): Promise<Credentials> => source.get();
  const credentials = once(
    roleArn === undefined
      ? shellCredentials
      : () => assumeRole(new STSClient({ region: home, requestHandler, credentials: shellCredentials }), roleArn, name),
  );
  const config = { region, requestHandler, credentials };
  const homeConfig = { ...config, region: home };
  return { config, homeConfig, credentials, shellCredentials, close: () => agent.destroy() };
}

/** @throws CredentialsError */
async function assumeRole(sts: STSClient, roleArn: string, name: string): Promise<Credentials> {
  try {
    const request = new AssumeRoleCommand({ RoleArn: roleArn, RoleSessionName: `triton-serving-${name}` });
    const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = (await sts.send(request)).Credentials ?? {};
    return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken };
  } catch (error) {
    const { name: kind, message } = error as Error;
    throw new CredentialsError(`cannot assume the role ${roleArn} of aws:assumeRoles: ${kind}: ${message}`, {
      hint: 'check the trust policy of the role, and aws:assumeRoles in the stack file',
      cause: error,
    });
  } finally {
    sts.destroy();
  }
}

/** Calls `read` once for each key, because several checks need the same answer. */
export function once<A extends readonly string[], T>(read: (...keys: A) => Promise<T>): (...keys: A) => Promise<T> {
  const answers = new Map<string, Promise<T>>();
  return (...keys) => {
    const key = keys.join('\n');
    const answer = answers.get(key) ?? read(...keys);
    answers.set(key, answer);
    return answer;
  };
}
