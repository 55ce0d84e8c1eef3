import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { loadAll } from 'js-yaml';
import { UserError } from '../../src/core/errors';
import { describeYamlError } from '../../src/model/yaml-text';
import { IDENTITY_KEYS } from './aws-identity';
import { getTags, type ConfigSource } from './source';

interface StackFile {
  config?: Record<string, unknown>;
}

const STACK_FILE = /^Pulumi\.(.+)\.yaml$/;

/**
 * Reads the configuration from a stack file without Pulumi, so that commands that need no secrets work without the
 * passphrase.
 * @param folder of Pulumi.yaml
 * @throws UserError if the stack file is missing
 */
export function stackFile(stack: string, folder: string): ConfigSource {
  const file = join(folder, `Pulumi.${stack}.yaml`);
  if (!/^[\w.-]+$/.test(stack) || !existsSync(file)) {
    const stacks = existsSync(folder)
      ? readdirSync(folder)
          .sort()
          .flatMap((name) => STACK_FILE.exec(name)?.[1] ?? [])
      : [];
    throw new UserError(`${file} does not exist`, {
      hint:
        stacks.length === 0
          ? 'set --stack-dir to the folder that contains Pulumi.yaml and the stack files'
          : `use a stack that has a stack file: ${stacks.join(', ')}`,
    });
  }
  const prefix = `${projectName(folder)}:`;
  const config = readConfig(file, prefix);
  const own = Object.entries(config).flatMap(([key, value]) => {
    const name = ownName(key, prefix);
    return name === undefined ? [] : [[name, value] as const];
  });
  const region = config['aws:region'];
  return {
    stack,
    region: typeof region === 'string' ? region : undefined,
    identity: Object.fromEntries(
      IDENTITY_KEYS.map((key) => {
        const value = config[`aws:${key}`];
        return [key, key === 'profile' ? value : parseJson(file, `aws:${key}`, value)];
      }),
    ),
    tags: getTags(parseJson(file, 'aws:defaultTags', config['aws:defaultTags'])),
    values: Object.fromEntries(own.map(([name, value]) => [name, asPulumiGives(value)])),
    encrypted: new Set(own.flatMap(([name, value]) => encryptedPaths(value, name))),
  };
}

/** The ids in `aws:allowedAccountIds` of a stack file; empty if the AWS provider may work in every account. */
export function allowedAccounts(stack: string, folder: string): string[] {
  const file = join(folder, `Pulumi.${stack}.yaml`);
  const key = 'aws:allowedAccountIds';
  const list = parseJson(file, key, readConfig(file, `${projectName(folder)}:`)[key]);
  return [list ?? []].flat().map(String);
}

/** "pulumi config set" without --path writes a list or a mapping as JSON. */
function parseJson(file: string, key: string, value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch (error) {
    throw unreadable(file, `${key} is not valid JSON: ${(error as Error).message}`);
  }
}

/** Name of the project in Pulumi.yaml, which is the prefix of its keys. */
function projectName(folder: string): string {
  const file = join(folder, 'Pulumi.yaml');
  return (
    (existsSync(file) ? /^name: *([\w.-]+)/m.exec(readFileSync(file, 'utf8'))?.[1] : undefined) ?? 'triton-serving'
  );
}

/** @throws UserError with line and column if the file is not valid YAML */
function readConfig(file: string, prefix: string): Record<string, unknown> {
  const config = readYaml(file).config ?? {};
  if (typeof config !== 'object' || Array.isArray(config)) throw unreadable(file, 'config is not a mapping');
  const twice = Object.keys(config).find((key) => !key.includes(':') && config[`${prefix}${key}`] !== undefined);
  if (twice !== undefined) {
    throw unreadable(file, `${twice} and ${prefix}${twice} are both set`, `keep only ${prefix}${twice}`);
  }
  return config;
}

function readYaml(file: string): StackFile {
  try {
    const [content] = loadAll(readFileSync(file, 'utf8')) as (StackFile | null)[];
    return content ?? {};
  } catch (error) {
    throw unreadable(file, describeYamlError(error));
  }
}

const unreadable = (file: string, message: string, hint?: string): UserError =>
  new UserError(`${basename(file)} cannot be read`, { problems: [{ file, message, hint }] });

/** Name of a key of this project. Pulumi assigns a key without a prefix to the project. */
function ownName(key: string, prefix: string): string | undefined {
  if (!key.includes(':')) return key;
  return key.startsWith(prefix) ? key.slice(prefix.length) : undefined;
}

const isEncrypted = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).join() === 'secure';

/** Paths of the encrypted parts of a value: `s3.secretAccessKey`. */
function encryptedPaths(value: unknown, path: string): string[] {
  if (isEncrypted(value)) return [path];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => encryptedPaths(inner, `${path}.${name}`));
}

/**
 * Pulumi passes values as text: `1.35` without quotes becomes "1.35". Of an encrypted value only its existence is
 * known.
 */
function asPulumiGives(value: unknown): unknown {
  if (isEncrypted(value)) return 'encrypted-and-not-known-here';
  if (encryptedPaths(value, '').length > 0 && !Array.isArray(value)) {
    return Object.fromEntries(Object.entries(value as object).map(([key, inner]) => [key, asPulumiGives(inner)]));
  }
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
}
