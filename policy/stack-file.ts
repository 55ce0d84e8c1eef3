import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { load } from 'js-yaml';

/**
 * Reads policy:production from the stack file of the project that `directory` belongs to. Pulumi's Node SDK passes no
 * configuration of the stack to a policy pack, only the names in the URNs.
 * @param urn of any resource of the stack: urn:pulumi:STACK::PROJECT::...
 * @returns undefined if the stack file does not set it, or does not exist
 */
export function readProduction(directory: string, urn: string): boolean | undefined {
  const [, , stack = ''] = urn.split(':');
  for (let folder = directory; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'Pulumi.yaml'))) {
      const file = join(folder, `Pulumi.${stack}.yaml`);
      if (!existsSync(file)) return undefined;
      const { config } = load(readFileSync(file, 'utf8')) as { config?: Record<string, unknown> };
      // "pulumi config set" writes a string.
      const value = String(config?.['policy:production']);
      return value === 'true' ? true : value === 'false' ? false : undefined;
    }
    if (folder === dirname(folder)) return undefined;
  }
}
