import type { Agent } from 'node:http';
import { UserError } from '../core/errors';
import { ProxyError } from './agent';
import { nonEmpty } from './endpoint';
import { NOT_TRUSTED } from './errors';
import type { Credentials } from './types';

interface Expiring extends Credentials {
  expiration?: Date;
}

/** What the providers of AWS need to send requests. */
export interface SignInOptions {
  /** Region of requests to STS, if the profile of a role names none. */
  region: string;
  /** Agent for https, which uses the proxy. */
  agent: Agent;
}

/** A provider is asked at most once in this time, in ms. */
const ASK_EVERY_MS = 10_000;
/** Credentials are renewed this long before they expire, in ms. */
const RENEW_BEFORE_MS = 300_000;
/** Limits for requests to STS and SSO, in ms. */
const SIGN_IN_TIMEOUTS = { connectionTimeout: 4000, requestTimeout: 5000 };
const SIGN_IN_ATTEMPTS = 2;

/**
 * Provides the credentials for signing: the given ones, else those in the environment, else those of AWS's providers,
 * which take time and memory to load.
 */
export class CredentialSource {
  private readonly fixed: Credentials | undefined;
  private current: Expiring | undefined;
  private asking: Promise<Expiring> | undefined;
  private askedAt = -Infinity;

  /** @param signIn opens the connections of AWS's providers, if they are needed */
  constructor(
    given: Credentials | undefined,
    private readonly signIn: () => Promise<SignInOptions>,
    private readonly env: NodeJS.ProcessEnv = process.env,
  ) {
    this.fixed = given ?? readEnvironment(env);
  }

  /** @throws UserError if no credentials can be obtained */
  get(): Credentials | Promise<Credentials> {
    if (this.fixed !== undefined) return this.fixed;
    const expiresIn = (this.current?.expiration?.getTime() ?? Infinity) - Date.now();
    const mayAsk = Date.now() - this.askedAt >= ASK_EVERY_MS;
    if (this.current !== undefined && expiresIn > (mayAsk ? RENEW_BEFORE_MS : 0)) return this.current;
    const { current } = this;
    return this.ask().catch((error: unknown) => {
      if (current !== undefined && expiresIn > 0) return current;
      throw error;
    });
  }

  /**
   * Replaces credentials that S3 rejected as expired.
   * @returns false if there are no other credentials
   * @throws UserError
   */
  async renew(rejected: Credentials): Promise<boolean> {
    if (this.fixed !== undefined) return false;
    const now = this.current === rejected ? await this.ask() : this.current;
    return now?.accessKeyId !== rejected.accessKeyId || now.sessionToken !== rejected.sessionToken;
  }

  private ask(): Promise<Expiring> {
    this.askedAt = Date.now();
    this.asking ??= this.askProvider()
      .then((credentials) => (this.current = credentials))
      .catch((error: unknown) => {
        throw error instanceof UserError ? error : this.explain(error as NodeJS.ErrnoException);
      })
      .finally(() => (this.asking = undefined));
    return this.asking;
  }

  private async askProvider(): Promise<Expiring> {
    const [{ NodeHttpHandler }, { region, agent }] = await Promise.all([
      import('@smithy/node-http-handler'),
      this.signIn(),
    ]);
    const requestHandler = new NodeHttpHandler({ ...SIGN_IN_TIMEOUTS, httpsAgent: agent as never });
    const options = {
      clientConfig: { requestHandler, maxAttempts: SIGN_IN_ATTEMPTS },
      parentClientConfig: { region, requestHandler },
    };
    // With a profile, the chain would replace the reason of a failure by that of its last provider.
    if (nonEmpty(this.env['AWS_PROFILE']) !== undefined)
      return (await import('@aws-sdk/credential-provider-ini')).fromIni(options)();
    return (await import('@aws-sdk/credential-provider-node')).defaultProvider(options)();
  }

  private explain(error: NodeJS.ErrnoException): UserError {
    const profile = nonEmpty(this.env['AWS_PROFILE']);
    const container = CONTAINER_VARIABLES.find((variable) => nonEmpty(this.env[variable]) !== undefined);
    const name = error.code ?? error.name;
    let text = `${name}: ${error.message}`;
    if (name === 'CredentialsProviderError' || error.message.includes(name)) text = error.message;
    if (profile === undefined && container !== undefined) text = `the service in ${container} provided none`;
    // The command may contain a secret.
    text = text.replace(/^Command failed: .*\n?/, 'credential_process failed: ').trim();
    const [, advice = OTHERWISE] = ADVICE.find(([pattern]) => pattern.test(`${error.name} ${text}`)) ?? [];
    return new UserError(
      `cannot obtain the AWS credentials${profile === undefined ? '' : ` of profile ${profile}`}: ${text}`,
      { hint: error instanceof ProxyError ? error.hint : advice, cause: error },
    );
  }
}

const CONTAINER_VARIABLES = ['AWS_CONTAINER_CREDENTIALS_FULL_URI', 'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI'];

/** Next step if no provider has credentials. */
const OTHERWISE =
  'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or sign in ("aws sso login"), or use a machine or pod that has a role; for "npm run local" use --local';

/** Next step, by the name and text of an error of a provider, STS, SSO or the connection to them. */
const ADVICE: [pattern: RegExp, advice: string][] = [
  [/the service in AWS_CONTAINER/, 'check the role of the pod or task, and its service account'],
  [/credential_process/, 'run the credential_process of the profile by hand: it must print the JSON of the AWS tools'],
  [/using profile|could not be found/, 'correct AWS_PROFILE, or add the profile to ~/.aws/config ("aws configure")'],
  [/ENOENT/, 'correct AWS_WEB_IDENTITY_TOKEN_FILE (or web_identity_token_file of the profile)'],
  [/ SSO |ExpiredToken|RequestExpired|Unauthorized/, 'the sign-in has expired: sign in again ("aws sso login")'],
  [/AccessDenied/, 'this identity may not assume the role: check its trust policy, and role_arn of the profile'],
  [/ForbiddenException|ResourceNotFound/, 'this user has no access to the account and role: check the profile'],
  [/InvalidClientTokenId|UnrecognizedClient/, 'the access key is unknown to AWS: check the keys of the source profile'],
  [/SignatureDoesNotMatch/, 'the secret key of the source profile, or the clock of this machine, is wrong'],
  [/InvalidIdentityToken|IDPRejected/, 'check AWS_WEB_IDENTITY_TOKEN_FILE and the OIDC provider of the account'],
  [/CERT|SIGNATURE|UNABLE_TO/, NOT_TRUSTED],
  [
    /\bE[A-Z_]{6,}|TimeoutError/,
    'the sign-in of AWS cannot be reached: check the network, the region, and HTTPS_PROXY',
  ],
];

function readEnvironment(env: NodeJS.ProcessEnv): Credentials | undefined {
  const accessKeyId = nonEmpty(env['AWS_ACCESS_KEY_ID']);
  const secretAccessKey = nonEmpty(env['AWS_SECRET_ACCESS_KEY']);
  // AWS_PROFILE takes precedence over access keys, as in the AWS SDK for JavaScript.
  if (nonEmpty(env['AWS_PROFILE']) !== undefined || accessKeyId === undefined || secretAccessKey === undefined)
    return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: nonEmpty(env['AWS_SESSION_TOKEN']) };
}
