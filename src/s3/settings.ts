import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
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

type Profile = Partial<Record<string, string>>;

/**
 * Reads the settings: options take precedence over variables, variables over the profile. An empty variable counts as
 * missing, because workflows set variables without a value to "".
 * @throws UserError if a value is not allowed
 */
export async function readSettings(
  { region, endpointUrl }: Pick<StoreOptions, 'region' | 'endpointUrl'>,
  env: NodeJS.ProcessEnv,
): Promise<Settings> {
  const { profile, service } = await readProfile(env);
  const variable = (name: string): string | undefined => nonEmpty(env[name]);
  const ignored = toBoolean('AWS_IGNORE_CONFIGURED_ENDPOINT_URLS', env['AWS_IGNORE_CONFIGURED_ENDPOINT_URLS']);
  const configured = ignored
    ? undefined
    : (variable('AWS_ENDPOINT_URL_S3') ??
      variable('AWS_ENDPOINT_URL') ??
      nonEmpty(service['s3.endpoint_url']) ??
      nonEmpty(profile['endpoint_url']));
  const url = nonEmpty(endpointUrl) ?? configured;
  return {
    region:
      nonEmpty(region) ??
      (url === undefined ? undefined : regionOfHost(url)) ??
      variable('AWS_REGION') ??
      variable('AWS_DEFAULT_REGION') ??
      nonEmpty(profile['region']) ??
      'us-east-1',
    endpointUrl: url,
    fips: flag('AWS_USE_FIPS_ENDPOINT', 'use_fips_endpoint', env, profile),
    dualStack: flag('AWS_USE_DUALSTACK_ENDPOINT', 'use_dualstack_endpoint', env, profile),
    caFile: variable('AWS_CA_BUNDLE') ?? nonEmpty(profile['ca_bundle']),
  };
}

/** The region in the host name of an S3 endpoint of AWS or of a VPC. */
export function regionOfHost(url: string): string | undefined {
  const host = URL.canParse(url) ? new URL(url).hostname : url;
  return /(?:^|\.)s3(?:-fips)?(?:\.dualstack)?[.-]([a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:vpce\.)?[a-z0-9-]+\./.exec(host)?.[1];
}

/** The profile of the AWS tools, and its section for services. Reads nothing if there is no configuration file. */
async function readProfile(env: NodeJS.ProcessEnv): Promise<{ profile: Profile; service: Profile }> {
  const none = { profile: {}, service: {} };
  const places = { AWS_CONFIG_FILE: 'config', AWS_SHARED_CREDENTIALS_FILE: 'credentials' };
  const files = Object.entries(places).map(([name, file]) => nonEmpty(env[name]) ?? join(homedir(), '.aws', file));
  if (!files.some((file) => existsSync(file))) return none;
  // Loaded on demand, because most runs in CI have no configuration file.
  const { loadSharedConfigFiles } = await import('@smithy/core/config');
  const { configFile, credentialsFile } = await loadSharedConfigFiles();
  const name = nonEmpty(env['AWS_PROFILE']) ?? 'default';
  const profile = { ...configFile[name], ...credentialsFile[name] };
  const services = nonEmpty(profile['services']);
  return { profile, service: services === undefined ? {} : (configFile[`services.${services}`] ?? {}) };
}

function flag(variable: string, field: string, env: NodeJS.ProcessEnv, profile: Profile): boolean {
  const given = nonEmpty(env[variable]);
  return given === undefined ? toBoolean(`${field} of the AWS profile`, profile[field]) : toBoolean(variable, given);
}

function toBoolean(name: string, text: string | undefined): boolean {
  const value = nonEmpty(text)?.toLowerCase() ?? 'false';
  if (value !== 'true' && value !== 'false') {
    throw new UserError(`${name} is "${text}"; allowed: true, false`, { hint: `correct ${name}` });
  }
  return value === 'true';
}

/** An empty text counts as missing. */
export function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}
