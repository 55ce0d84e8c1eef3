import { hostname, userInfo } from 'node:os';
import { exec } from '../core/exec';
import type { Provenance } from '../release/manifest';

const GIT_TIMEOUT_MS = 10_000;

/**
 * The commit of a folder and the given message, by default the subject of the commit. Without git, or outside of a work
 * tree, there is no commit.
 */
export async function readProvenance(folder: string, message: string | undefined): Promise<Provenance> {
  try {
    // Without the lock of the index, which "git status" takes to refresh it: a user's command would fail meanwhile.
    const git = async (...args: string[]): Promise<string> =>
      (await exec('git', ['--no-optional-locks', '-C', folder, ...args], { timeoutMs: GIT_TIMEOUT_MS })).stdout.trim();
    const [log, changes] = await Promise.all([
      git('log', '-1', '--format=%H%n%s'),
      git('status', '--porcelain', '--', '.'),
    ]);
    const [hash = '', subject = ''] = log.split('\n');
    return { commit: `${hash}${changes === '' ? '' : '+'}`, message: message ?? subject };
  } catch {
    return { message };
  }
}

/** The user who makes a release: `user@host`. */
export const ourName = (): string => `${userName()}@${hostname()}`;

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown'; // A container may run as a user without a name.
  }
}
