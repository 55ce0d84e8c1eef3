import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the path of a model's file for clients, such as `tokenizer.json`. A file in the version's folder precedes a
 * file in the model's folder, which is for all versions. If neither exists, the path is in the version's folder.
 */
export function versionFile(folder: string, version: number, name: string): string {
  const own = join(folder, String(version), name);
  const shared = join(folder, name);
  return !existsSync(own) && existsSync(shared) ? shared : own;
}
