/** Where Pulumi keeps the state of a stack, and what encrypts the secrets in it. */
export interface StateSettings {
  backend:
    | {
        kind: 'bucket';
        bucket: string;
        /** Empty, or a path that ends in a slash. */
        folder: string;
        region: string | undefined;
      }
    /** Pulumi Cloud, a folder, or another object store. */
    | { kind: 'elsewhere'; url: string }
    /** As `pulumi login` has stored it on this machine. */
    | { kind: 'unknown' };
  secrets:
    | {
        kind: 'key';
        /** Id, ARN or alias of a KMS key. */
        id: string;
        region: string | undefined;
      }
    | { kind: 'passphrase' }
    | { kind: 'elsewhere'; provider: string }
    | { kind: 'none' };
}

/**
 * Reads the URL of a backend: https://www.pulumi.com/docs/iac/concepts/state-and-backends (2026-11-27). An `endpoint` is
 * that of another S3 API.
 */
export function parseBackend(url: string | undefined): StateSettings['backend'] {
  if (url === undefined || url === '') return { kind: 'unknown' };
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol !== 's3:' || parsed.searchParams.has('endpoint')) {
    return { kind: 'elsewhere', url: hideSecrets(url) };
  }
  const folder = parsed.pathname.replace(/^\/+|\/+$/g, '');
  return {
    kind: 'bucket',
    bucket: parsed.hostname,
    folder: folder === '' ? '' : `${folder}/`,
    region: parsed.searchParams.get('region') ?? undefined,
  };
}

/** Without user, password and parameters. */
const hideSecrets = (url: string): string => url.replace(/\?.*$/s, '').replace(/\/\/[^/]*@/, '//');

/**
 * Reads `secretsprovider` of a stack file. A key is named by its id, ARN or alias:
 * https://pkg.go.dev/gocloud.dev/secrets/awskms (2026-11-27)
 * @param hasSalt whether the file has `encryptionsalt`, which belongs to a passphrase
 */
export function parseSecretsProvider(provider: string | undefined, hasSalt: boolean): StateSettings['secrets'] {
  if (provider === 'passphrase' || ((provider ?? '') === '' && hasSalt)) return { kind: 'passphrase' };
  if (provider === undefined || provider === '') return { kind: 'none' };
  const [, id, query] = /^awskms:\/\/\/?([^?]+)(?:\?(.*))?$/.exec(provider) ?? [];
  if (id === undefined) return { kind: 'elsewhere', provider: hideSecrets(provider) };
  const region = new URLSearchParams(query).get('region') ?? /^arn:[^:]+:kms:([^:]+):/.exec(id)?.[1];
  return { kind: 'key', id, region };
}
