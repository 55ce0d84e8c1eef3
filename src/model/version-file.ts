import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Where a file of a model for clients is, such as `tokenizer.json`: in the folder of the version that it belongs to, or,
 * for all versions, in the model's own.
 * @returns the path, of the version's folder where there is none
 */
export function versionFile(folder: string, version: number, name: string): string {
  const own = join(folder, String(version), name);
  const shared = join(folder, name);
  return !existsSync(own) && existsSync(shared) ? shared : own;
}
