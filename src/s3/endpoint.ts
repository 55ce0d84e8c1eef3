import { UserError } from '../core/errors';
import type { Settings } from './settings';

/** Address to which requests for a bucket are sent. */
export interface Endpoint {
  /** URL for messages. */
  url: string;
  /** Whether the server is AWS, not another S3 API. */
  ofAws: boolean;
  secure: boolean;
  hostname: string;
  port: number;
  /** The Host header, which is signed. */
  host: string;
  /** Path of the bucket, percent-encoded, without a trailing slash. */
  bucketPath: string;
}

/**
 * The endpoint of AWS, or of the S3 API at `endpointUrl`, which is addressed in path style.
 * @throws UserError if the address is wrong, or contradicts the settings for FIPS
 */
export async function resolveEndpoint(bucket: string, settings: Omit<Settings, 'caFile'>): Promise<Endpoint> {
  const { region, endpointUrl, fips, dualStack } = settings;
  if (endpointUrl !== undefined) return customEndpoint(bucket, endpointUrl, fips);
  if (!/^[a-z0-9-]+$/.test(region)) {
    throw new UserError(`"${region}" is not the name of a region`, {
      hint: 'set --region, AWS_REGION or the region of the profile to a name such as eu-central-1',
    });
  }
  const labels = [fips ? 's3-fips' : 's3', ...(dualStack ? ['dualstack'] : []), region, await dnsSuffix(region)];
  const host = labels.join('.');
  // AWS's wildcard certificate covers one label, so a bucket with dots in its name is addressed in path style.
  const inHost = !bucket.includes('.');
  const hostname = inHost ? `${bucket}.${host}` : host;
  return {
    url: `https://${hostname}`,
    ofAws: true,
    secure: true,
    hostname,
    port: 443,
    host: hostname,
    bucketPath: inHost ? '' : `/${encodeText(bucket)}`,
  };
}

/** The domain of a region's partition. Asks AWS's own table for all regions but those of the commercial partition. */
async function dnsSuffix(region: string): Promise<string> {
  if (
    /^(af|ap|ca|eu|il|me|mx|sa|us)-(central|north|south|east|west|northeast|northwest|southeast|southwest)-\d$/.test(
      region,
    )
  ) {
    return 'amazonaws.com';
  }
  const { partition } = await import('@aws-sdk/core/client');
  return partition(region).dnsSuffix;
}

/** The domains of all partitions of AWS. */
const OF_AWS = /\.(amazonaws\.(com|com\.cn|eu)|c2s\.ic\.gov|sc2s\.sgov\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov)$/;

/** The S3 API at `endpointUrl`, addressed in path style. */
export function customEndpoint(bucket: string, endpointUrl: string, fips = false): Endpoint {
  const url = URL.canParse(endpointUrl) ? new URL(endpointUrl) : undefined;
  const extra = url === undefined ? '' : url.username + url.password + url.search + url.hash;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || extra !== '') {
    const shown = url === undefined || url.username + url.password === '' ? `"${endpointUrl}" ` : '';
    throw new UserError(`the S3 endpoint ${shown}is not the address of a server`, {
      hint: 'write --endpoint-url http://HOST:PORT or https://HOST[:PORT]',
    });
  }
  const ofAws = OF_AWS.test(url.hostname);
  if (ofAws && fips && !url.hostname.includes('fips')) {
    throw new UserError(`AWS_USE_FIPS_ENDPOINT is true, and the S3 endpoint ${endpointUrl} is no FIPS endpoint`, {
      hint: 'remove --endpoint-url (AWS_ENDPOINT_URL), or set it to an endpoint with "fips" in its name',
    });
  }
  const secure = url.protocol === 'https:';
  return {
    url: endpointUrl,
    ofAws,
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
