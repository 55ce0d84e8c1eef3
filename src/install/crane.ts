import { join } from 'node:path';
import type { Step } from '../cli/progress';
import { UserError } from '../core/errors';
import { exec } from '../core/exec';
import { computeSha256 } from '../core/sha256';
import { cached } from './cache';
import { findOnPath } from './on-path';

export interface CraneRelease {
  /** With its v. */
  version: string;
  /** Address of the folder with the archive of each version. */
  url: string;
  /** `${process.platform}-${process.arch}` -> file name and SHA-256 of the archive. */
  archives: Readonly<Record<string, readonly [name: string, sha256: string]>>;
}

const VERSION = 'v0.21.9';

/** The official builds of crane. */
export const CRANE: CraneRelease = {
  version: VERSION,
  url: `https://github.com/google/go-containerregistry/releases/download/${VERSION}`,
  archives: {
    'linux-x64': [
      'go-containerregistry_Linux_x86_64.tar.gz',
      '5c16d8ddb971cb1d5e6ed8b1e743da8224414eeba2c2762d8f1a61b2f095699e',
    ],
    'linux-arm64': [
      'go-containerregistry_Linux_arm64.tar.gz',
      '1f4c647b7bb260ab5435661df5b526cf59950ebf95201790db7183ac189cbcbd',
    ],
  },
};

/**
 * Returns the path of crane, which copies images between registries: the one on PATH, in any version, otherwise the
 * official build, which is downloaded once into the cache.
 * @throws UserError if it cannot be downloaded
 */
export async function ensureCrane(step: Step, release: CraneRelease = CRANE): Promise<string> {
  const present = findOnPath('crane');
  if (present !== undefined) return present;
  const { version, url, archives } = release;
  const platform = `${process.platform}-${process.arch}`;
  const fail = (why: string, cause?: unknown): never => {
    throw new UserError(`cannot install crane, which copies images: ${why}`, {
      hint: `put crane on PATH: "go install github.com/google/go-containerregistry/cmd/crane@${version}", "brew install crane", or ${url}`,
      cause,
    });
  };
  const [name, sha256] = archives[platform] ?? fail(`no build for ${platform} is known here`);
  const directory = await cached(`crane-${version}`, async (target) => {
    step.update(`downloading ${name}`);
    const archive = join(target, name);
    try {
      // Unlike fetch, curl reads the proxy and certificate settings of the user.
      await exec('curl', ['--fail', '--silent', '--show-error', '--location', '--output', archive, `${url}/${name}`]);
    } catch (error) {
      fail((error as Error).message, error);
    }
    const got = await computeSha256(archive);
    if (got !== sha256) fail(`${url}/${name} has the SHA-256 ${got}, not ${sha256}`);
    await exec('tar', ['-xzf', archive, '-C', target, 'crane']);
  });
  return join(directory, 'crane');
}
