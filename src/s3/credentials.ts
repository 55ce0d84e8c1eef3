import type { Credentials } from './types';

interface Expiring extends Credentials {
  expiration?: Date;
}

/** Credentials are fetched anew this long before they expire, in ms. */
const RENEW_BEFORE_MS = 5 * 60_000;

/**
 * The credentials to sign with. Those that are given or in the environment are used as they are; only otherwise
 * the AWS credential chain is loaded, which takes time and memory.
 */
export class CredentialSource {
  private current: Expiring | undefined;
  private pending: Promise<Expiring> | undefined;

  constructor(given: Credentials | undefined) {
    this.current = given ?? fromEnvironment();
  }

  /** @throws an error named CredentialsProviderError when there are none. */
  get(): Credentials | Promise<Credentials> {
    const expiration = this.current?.expiration;
    const good = expiration === undefined || expiration.getTime() - Date.now() > RENEW_BEFORE_MS;
    if (this.current !== undefined && good) return this.current;
    this.pending ??= this.fetch().finally(() => (this.pending = undefined));
    return this.pending;
  }

  private async fetch(): Promise<Expiring> {
    const { defaultProvider } = await import('@aws-sdk/credential-provider-node');
    this.current = await defaultProvider()({ forceRefresh: true });
    return this.current;
  }
}

function fromEnvironment(): Credentials | undefined {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE } = process.env;
  // A profile that is named wins, as in AWS's own tools for JavaScript.
  if (AWS_PROFILE !== undefined && AWS_PROFILE !== '') return undefined;
  if (AWS_ACCESS_KEY_ID === undefined || AWS_SECRET_ACCESS_KEY === undefined) return undefined;
  if (AWS_ACCESS_KEY_ID === '' || AWS_SECRET_ACCESS_KEY === '') return undefined;
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    ...(AWS_SESSION_TOKEN === undefined || AWS_SESSION_TOKEN === '' ? {} : { sessionToken: AWS_SESSION_TOKEN }),
  };
}
