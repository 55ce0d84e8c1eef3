import { escapeUri } from '@smithy/core/protocols';
import { UserError } from '../core/errors';
import type { StoreOptions } from './types';

/** Settings that the AWS tools read from flags, variables and profiles. */
export interface Settings {
  region: string;
  /** URL of an S3 API; undefined for that of AWS in `region`. */
  endpointUrl: string | undefined;
  fips: boolean;
  dualStack: boolean;
  /** File of certificate authorities. */
  caFile: string | undefined;
}

/** Address to which requests for a bucket are sent. */
export interface Endpoint {
  url: string;
  /** Has the scheme, the host and the port. */
  server: URL;
  /** Path of the bucket, percent-encoded, without a trailing slash. */
  bucketPath: string;
}

/** An empty text counts as missing, because workflows set variables without a value to "". */
export const nonEmpty = (text: string | undefined): string | undefined => (text === '' ? undefined : text);

/**
 * Reads the settings: options take precedence over variables, variables over the profile.
 * @throws UserError if a value is not allowed
 */
export async function readSettings(
  options: Pick<StoreOptions, 'region' | 'endpointUrl'>,
  env: NodeJS.ProcessEnv,
): Promise<Settings> {
  const { loadSharedConfigFiles } = await import('@smithy/core/config');
  const { configFile, credentialsFile } = await loadSharedConfigFiles();
  const name = nonEmpty(env['AWS_PROFILE']) ?? 'default';
  const profile = { ...configFile[name], ...credentialsFile[name] };
  const service = configFile[`services.${profile['services']}`] ?? {};
  const flag = (variable: string, field: string): boolean => {
    const text = first(env[variable], profile[field]) ?? 'false';
    if (/^(true|false)$/i.test(text)) return text.toLowerCase() === 'true';
    throw new UserError(`${variable} is "${text}"; allowed: true, false`, {
      hint: `correct ${variable}, or the same setting of the AWS profile`,
    });
  };
  const urls = flag('AWS_IGNORE_CONFIGURED_ENDPOINT_URLS', 'ignore_configured_endpoint_urls')
    ? []
    : [env['AWS_ENDPOINT_URL_S3'], env['AWS_ENDPOINT_URL'], service['s3.endpoint_url'], profile['endpoint_url']];
  const endpointUrl = first(options.endpointUrl, ...urls);
  const regions = [env['AWS_REGION'], env['AWS_DEFAULT_REGION'], profile['region']];
  return {
    region: first(options.region, getRegion(endpointUrl ?? ''), ...regions) ?? 'us-east-1',
    endpointUrl,
    fips: flag('AWS_USE_FIPS_ENDPOINT', 'use_fips_endpoint'),
    dualStack: flag('AWS_USE_DUALSTACK_ENDPOINT', 'use_dualstack_endpoint'),
    caFile: first(env['AWS_CA_BUNDLE'], profile['ca_bundle']),
  };
}

const first = (...texts: (string | undefined)[]): string | undefined =>
  texts.find((text) => nonEmpty(text) !== undefined);

/** The region in the host name of an S3 endpoint of AWS or of a VPC. */
export function getRegion(url: string): string | undefined {
  const host = URL.canParse(url) ? new URL(url).hostname : url;
  return /(?:^|\.)s3(?:-fips)?(?:\.dualstack)?[.-]([a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:vpce\.)?[a-z0-9-]+\./.exec(host)?.[1];
}

/**
 * The endpoint of AWS, or of the S3 API at `endpointUrl`, which is addressed in path style.
 * @throws UserError if the address is wrong, or contradicts the settings for FIPS
 */
export async function resolveEndpoint(bucket: string, settings: Omit<Settings, 'caFile'>): Promise<Endpoint> {
  const { region, endpointUrl, fips, dualStack } = settings;
  if (endpointUrl !== undefined) return parseEndpoint(bucket, endpointUrl, fips);
  if (!/^[a-z0-9-]+$/.test(region)) {
    throw new UserError(`"${region}" is not the name of a region`, {
      hint: 'set --region, AWS_REGION or the region of the profile to a name such as eu-central-1',
    });
  }
  const { partition } = await import('@aws-sdk/core/client');
  const labels = [fips ? 's3-fips' : 's3', ...(dualStack ? ['dualstack'] : []), region, partition(region).dnsSuffix];
  // AWS's wildcard certificate covers one label, so a bucket with dots in its name is addressed in path style.
  const inPath = bucket.includes('.');
  return parseEndpoint(inPath ? bucket : '', `https://${inPath ? '' : `${bucket}.`}${labels.join('.')}`);
}

/** The domains of all partitions of AWS. */
const OF_AWS = /\.(amazonaws\.(com|com\.cn|eu)|c2s\.ic\.gov|sc2s\.sgov\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov)$/;

/** @param bucket empty if it is part of the host name */
function parseEndpoint(bucket: string, endpointUrl: string, fips = false): Endpoint {
  const server = URL.canParse(endpointUrl) ? new URL(endpointUrl) : undefined;
  const login = server === undefined ? '' : server.username + server.password;
  if (server === undefined || !/^https?:$/.test(server.protocol) || login + server.search + server.hash !== '') {
    throw new UserError(`the S3 endpoint ${login === '' ? `"${endpointUrl}" ` : ''}is not the address of a server`, {
      hint: 'write --endpoint-url http://HOST:PORT or https://HOST[:PORT]',
    });
  }
  if (fips && OF_AWS.test(server.hostname) && !server.hostname.includes('fips')) {
    throw new UserError(`AWS_USE_FIPS_ENDPOINT is true, and the S3 endpoint ${endpointUrl} is no FIPS endpoint`, {
      hint: 'remove --endpoint-url (AWS_ENDPOINT_URL), or set it to an endpoint with "fips" in its name',
    });
  }
  const bucketPath = server.pathname.replace(/\/+$/, '') + (bucket === '' ? '' : `/${escapeUri(bucket)}`);
  return { url: endpointUrl, server, bucketPath };
}
