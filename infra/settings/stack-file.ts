import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { UserError } from '../../scripts/lib/errors';
import type { ConfigSource } from './source';

interface StackFile {
  config?: Record<string, unknown>;
}

const PROJECT = 'triton-serving:';
const STACK_FILE = /^Pulumi\.(.+)\.yaml$/;

/**
 * The configuration in a stack file, read without Pulumi: what needs no secret works without its passphrase.
 * @param folder of Pulumi.yaml
 * @throws UserError when there is no such stack file
 */
export function stackFile(stack: string, folder: string): ConfigSource {
  const file = join(folder, `Pulumi.${stack}.yaml`);
  if (!/^[\w.-]+$/.test(stack) || !existsSync(file)) {
    const stacks = existsSync(folder)
      ? readdirSync(folder)
          .sort()
          .flatMap((name) => STACK_FILE.exec(name)?.[1] ?? [])
      : [];
    throw new UserError(`there is no ${file}`, {
      hint:
        stacks.length === 0
          ? '--stack-dir says in which folder Pulumi.yaml and the stack files are'
          : `name a stack that has such a file: ${stacks.join(', ')}`,
    });
  }
  const { config = {} } = (load(readFileSync(file, 'utf8')) as StackFile | null) ?? {};
  const own = Object.entries(config).filter(([key]) => key.startsWith(PROJECT));
  const region = config['aws:region'];
  return {
    stack,
    region: typeof region === 'string' ? region : process.env['AWS_REGION'],
    values: Object.fromEntries(own.map(([key, value]) => [key.slice(PROJECT.length), withoutSecret(value)])),
    encrypted: new Set(own.filter(([, value]) => isEncrypted(value)).map(([key]) => key.slice(PROJECT.length))),
  };
}

const isEncrypted = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).join() === 'secure';

/** Its length would do for a key; what it says is not known here. */
const withoutSecret = (value: unknown): unknown => (isEncrypted(value) ? 'encrypted-and-not-known-here' : value);
