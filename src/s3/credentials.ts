import type { Credentials } from './types';

interface Expiring extends Credentials {
  expiration?: Date;
}

/** Credentials are refreshed this long before they expire, in ms. */
const RENEW_BEFORE_MS = 5 * 60_000;

/**
 * Provides the credentials for signing: the given ones, else those in the environment. Loads the AWS credential chain
 * only if both are missing, because loading it takes time and memory.
 */
export class CredentialSource {
  private current: Expiring | undefined;
  private pending: Promise<Expiring> | undefined;

  constructor(given: Credentials | undefined) {
    this.current = given ?? fromEnvironment();
  }

  /** @throws an error named CredentialsProviderError if no credentials are found */
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
  // AWS_PROFILE takes precedence over access keys, as in the AWS SDK for JavaScript.
  if (AWS_PROFILE !== undefined && AWS_PROFILE !== '') return undefined;
  if (AWS_ACCESS_KEY_ID === undefined || AWS_SECRET_ACCESS_KEY === undefined) return undefined;
  if (AWS_ACCESS_KEY_ID === '' || AWS_SECRET_ACCESS_KEY === '') return undefined;
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    sessionToken: AWS_SESSION_TOKEN === '' ? undefined : AWS_SESSION_TOKEN,
  };
}
