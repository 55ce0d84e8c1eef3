import type { Agent } from 'node:http';
import type { defaultProvider } from '@aws-sdk/credential-provider-node';
import { UserError } from '../core/errors';
import { ProxyError } from './agent';
import { NOT_TRUSTED } from './errors';
import { nonEmpty } from './settings';
import type { Credentials } from './types';

type Provider = ReturnType<typeof defaultProvider>;

interface Expiring extends Credentials {
  expiration?: Date;
}

/** No credentials could be obtained. */
export class CredentialsError extends UserError {
  override readonly name = 'CredentialsError';
}

/** What the providers of AWS need to send requests. */
export interface SignInOptions {
  /** Region of requests to STS, if the profile of a role names none. */
  region: string;
  /** Agent for https, which uses the proxy. */
  agent: Agent;
  /** Whether the credentials are for AWS, not for another S3 API. */
  ofAws: boolean;
}

/** The provider is asked at most once in this time, in ms. It renews credentials that expire soon each time it is asked. */
const ASK_EVERY_MS = 10_000;
/** Limits for requests to STS and SSO, in ms. */
const SIGN_IN_TIMEOUTS = { connectionTimeout: 4000, requestTimeout: 5000 };
const SIGN_IN_ATTEMPTS = 2;

/**
 * Provides the credentials for signing: the given ones, else those in the environment. Loads the AWS credential chain
 * only if both are missing, because loading it takes time and memory. The chain renews credentials in the background
 * while the present ones are still valid.
 */
export class CredentialSource {
  private readonly fixed: Credentials | undefined;
  private current: Expiring | undefined;
  private provider: Promise<Provider> | undefined;
  private askAt = 0;
  private renewedAt = -Infinity;
  /** Texts that the chain logged. */
  private readonly notes: string[] = [];

  /** @param signIn opens the connections of the AWS credential chain, if the chain is needed */
  constructor(
    given: Credentials | undefined,
    private readonly signIn: () => Promise<SignInOptions>,
    private readonly env: NodeJS.ProcessEnv = process.env,
  ) {
    this.fixed = given ?? fromEnvironment(env);
  }

  /** @throws CredentialsError */
  get(): Credentials | Promise<Credentials> {
    if (this.fixed !== undefined) return this.fixed;
    return this.current !== undefined && Date.now() < this.askAt ? this.current : this.ask();
  }

  /**
   * Replaces credentials that S3 rejected as expired. Concurrent callers share one renewal.
   * @returns false if there are no other credentials
   * @throws CredentialsError
   */
  async renew(): Promise<boolean> {
    if (this.fixed !== undefined) return false;
    if (performance.now() - this.renewedAt < ASK_EVERY_MS) return true;
    const before = this.current;
    const now = await this.ask(true);
    if (now.accessKeyId === before?.accessKeyId && now.sessionToken === before.sessionToken) return false;
    this.renewedAt = performance.now();
    return true;
  }

  private async ask(forceRefresh = false): Promise<Expiring> {
    try {
      this.notes.length = 0;
      this.provider ??= this.open();
      const provider = await this.provider;
      const current: Expiring = await provider(forceRefresh ? { forceRefresh } : {});
      this.current = current;
      this.askAt = Math.min(Date.now() + ASK_EVERY_MS, current.expiration?.getTime() ?? Infinity);
      return current;
    } catch (error) {
      throw error instanceof UserError ? error : await this.explain(error as NodeJS.ErrnoException);
    }
  }

  private async open(): Promise<Provider> {
    // The warning about the version of Node is for those who use the SDK in their own code.
    process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
    const [aws, { NodeHttpHandler }, { region, agent }] = await Promise.all([
      import('@aws-sdk/credential-provider-node'),
      import('@smithy/node-http-handler'),
      this.signIn(),
    ]);
    const requestHandler = new NodeHttpHandler({ ...SIGN_IN_TIMEOUTS, httpsAgent: agent as never });
    return aws.defaultProvider({
      // Without a logger, warnings would be printed to the user's terminal.
      logger: { trace() {}, debug: (text: string) => this.notes.push(text), info() {}, warn() {}, error() {} },
      clientConfig: { requestHandler, maxAttempts: SIGN_IN_ATTEMPTS },
      parentClientConfig: { region, requestHandler },
    });
  }

  private async explain(error: NodeJS.ErrnoException): Promise<CredentialsError> {
    const profile = this.env['AWS_PROFILE'] ?? '';
    const from = profile === '' ? '' : ` of profile ${profile}`;
    const name = error.code ?? error.name;
    const isNamed = name === 'CredentialsProviderError' || error.message.includes(name);
    const text = isNamed ? (this.getReason(profile) ?? error.message) : `${name}: ${error.message}`;
    return new CredentialsError(`cannot obtain the AWS credentials${from}: ${text}`, {
      hint: error instanceof ProxyError ? error.hint : await this.adviceFor(`${error.name} ${text}`),
      cause: error,
    });
  }

  /** Why there are no credentials. The chain tries other providers then, and reports only that all of them failed. */
  private getReason(profile: string): string | undefined {
    const container = CONTAINER_VARIABLES.find((variable) => nonEmpty(this.env[variable]) !== undefined);
    if (profile === '') return container && `the service in ${container} provided none`;
    const notes = this.notes.flatMap((note) => /^@smithy\/property-provider (?:->|\(!\)) (.*)$/s.exec(note)?.[1] ?? []);
    const reason = notes.find((note) => !NOT_APPLICABLE.test(note));
    // The command may contain a secret.
    return reason?.replace(/^Command failed: .*\n?/, 'credential_process failed: ').trim();
  }

  private async adviceFor(text: string): Promise<string> {
    const [, advice] = ADVICE.find(([pattern]) => pattern.test(text)) ?? [];
    if (advice !== undefined) return advice;
    // AWS's sign-in does not work for other S3 APIs.
    return (await this.signIn()).ofAws
      ? `set AWS_PROFILE, or sign in with "aws sso login", or set ${KEYS}, or use a machine or pod that has a role`
      : `set ${KEYS} (or AWS_PROFILE) to those of this server; for "npm run local" use --local`;
  }
}

const CONTAINER_VARIABLES = ['AWS_CONTAINER_CREDENTIALS_FULL_URI', 'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI'];

/** Next step, by the name and text of an error of a provider, STS, SSO or the connection to them. */
const ADVICE: [pattern: RegExp, advice: string][] = [
  [/the service in AWS_CONTAINER/, 'check the role of the pod or task, and its service account'],
  [
    /credential_process/,
    'run the credential_process of the profile by hand: it must print the JSON that the AWS tools expect',
  ],
  [/using profile|could not be found/, 'correct AWS_PROFILE, or add the profile to ~/.aws/config ("aws configure")'],
  [/ENOENT/, 'correct AWS_WEB_IDENTITY_TOKEN_FILE (or web_identity_token_file of the profile)'],
  [/ SSO /, 'sign in again ("aws sso login")'],
  [
    /AccessDenied/,
    'this identity may not assume the role: check the trust policy of the role, and role_arn of the profile',
  ],
  [/ExpiredToken|RequestExpired|UnauthorizedException/, 'the sign-in has expired: sign in again ("aws sso login")'],
  [/ForbiddenException|ResourceNotFound/, 'this user has no access to the account and role: check the profile'],
  [/InvalidClientTokenId|UnrecognizedClient/, 'the access key is unknown to AWS: check the keys of the source profile'],
  [/SignatureDoesNotMatch/, 'the secret key of the source profile, or the clock of this machine, is wrong'],
  [
    /InvalidIdentityToken|IDPRejectedClaim/,
    'the identity token is rejected: check AWS_WEB_IDENTITY_TOKEN_FILE and the OIDC provider',
  ],
  [/CERT|SIGNATURE|UNABLE_TO/, NOT_TRUSTED],
  [
    /E(CONNREFUSED|NOTFOUND|AI_AGAIN|TIMEDOUT|HOSTUNREACH|NETUNREACH|CONNRESET)|TimeoutError/,
    'the sign-in of AWS cannot be reached: check the network, the region, and HTTPS_PROXY',
  ],
];

const KEYS = 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY';

/** What the AWS credential chain notes about providers that do not apply. */
const NOT_APPLICABLE = /skipping|did not contain|could not be parsed|not present|disabled|Could not load/i;

function fromEnvironment(env: NodeJS.ProcessEnv): Credentials | undefined {
  const accessKeyId = nonEmpty(env['AWS_ACCESS_KEY_ID']);
  const secretAccessKey = nonEmpty(env['AWS_SECRET_ACCESS_KEY']);
  // AWS_PROFILE takes precedence over access keys, as in the AWS SDK for JavaScript.
  if (nonEmpty(env['AWS_PROFILE']) !== undefined || accessKeyId === undefined || secretAccessKey === undefined) {
    return undefined;
  }
  return { accessKeyId, secretAccessKey, sessionToken: nonEmpty(env['AWS_SESSION_TOKEN']) };
}
