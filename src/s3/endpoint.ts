import { UserError } from '../core/errors';

/** Address to which requests for a bucket are sent. */
export interface Endpoint {
  /** URL for messages. */
  url: string;
  secure: boolean;
  hostname: string;
  port: number;
  /** The Host header, which is signed. */
  host: string;
  /** Path of the bucket, percent-encoded, without a trailing slash. */
  bucketPath: string;
}

/** The endpoint of AWS, or of the S3 API at `endpointUrl`, which is addressed in path style. */
export function resolveEndpoint(bucket: string, region: string, endpointUrl: string | undefined): Endpoint {
  if (endpointUrl !== undefined) return customEndpoint(bucket, endpointUrl);
  const host = `s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  // AWS's wildcard certificate covers one label, so a bucket with dots in its name is addressed in path style.
  const inHost = !bucket.includes('.');
  const hostname = inHost ? `${bucket}.${host}` : host;
  return {
    url: `https://${hostname}`,
    secure: true,
    hostname,
    port: 443,
    host: hostname,
    bucketPath: inHost ? '' : `/${encodeText(bucket)}`,
  };
}

function customEndpoint(bucket: string, endpointUrl: string): Endpoint {
  const url = URL.canParse(endpointUrl) ? new URL(endpointUrl) : undefined;
  const extra = url === undefined ? '' : url.username + url.password + url.search + url.hash;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || extra !== '') {
    throw new UserError(`the S3 endpoint "${endpointUrl}" is not the address of a server`, {
      hint: 'write --endpoint-url http://HOST:PORT or https://HOST[:PORT]',
    });
  }
  const secure = url.protocol === 'https:';
  return {
    url: endpointUrl,
    secure,
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
    host: url.host,
    bucketPath: `${url.pathname.replace(/\/+$/, '')}/${encodeText(bucket)}`,
  };
}

/** Percent-encodes all characters except those that Signature Version 4 leaves unencoded. */
export function encodeText(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Encodes a key as a path: like encodeText, but keeps slashes. */
export function encodeKey(key: string): string {
  return encodeText(key).replaceAll('%2F', '/');
}

/** Encodes a query for sending and signing: percent-encoded, sorted by name. */
export function encodeQuery(query: Readonly<Record<string, string>>): string {
  return Object.keys(query)
    .sort()
    .map((name) => `${encodeText(name)}=${encodeText(query[name] as string)}`)
    .join('&');
}
