import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { formatBytes, formatTable } from '../src/core/format';
import { cacheRoot } from '../src/local/install/cache';
import { diskUsage } from '../src/local/install/disk-usage';
import { isAlive } from '../src/core/lock.cjs';

const FLAGS = {
  yes: { help: 'delete what is not in use' },
} as const;

/** A file or folder of the cache. */
interface Entry {
  path: string;
  /** What the user knows it by. */
  what: string;
  bytes: number;
  usedAt: Date;
  /** Why it is not deleted. */
  inUse: string | undefined;
}

const HOUR_MS = 3_600_000;
/** Made for the files of models, so that several are in use at the same time. Of others, one version is. */
const OF_MODELS = /^(trace-packages|model-python|weights)\b/;

const LINE = {
  name: 'npm run clean',
  about: 'Lists what the commands of this package keep in ~/.cache/triton-serving, or deletes what is not in use.',
  flags: FLAGS,
  notes: `In use are: the bucket of each running "npm run local", and while one runs, all packages of models; of each program and
Python environment, the version that was used last; and all that was used in the last hour. The rest is downloaded or made
again when a command needs it. A deleted bucket of "npm run local" also loses the local releases, so they cannot be rolled back.

Examples:
  npm run clean
  npm run clean -- --yes

Exit codes: 0 done, 1 failed, 2 wrong command line.`,
};

export const main = command(LINE, (flags) => {
  const entries = readCache(cacheRoot());
  const unused = entries.filter(({ inUse }) => inUse === undefined);
  const total = (list: readonly Entry[]): string => formatBytes(list.reduce((sum, { bytes }) => sum + bytes, 0));
  const day = (date: Date): string => date.toISOString().slice(0, 16).replace('T', ' ');
  const rows = entries.map(({ what, bytes, usedAt, inUse }) => [
    what,
    formatBytes(bytes),
    day(usedAt),
    inUse ?? 'not in use',
  ]);
  if (rows.length > 0) process.stdout.write(`${formatTable(['in the cache', 'size', 'last use', ''], rows)}\n\n`);
  process.stdout.write(`${cacheRoot()}: ${total(entries)}, of which ${total(unused)} are not in use\n`);
  if (unused.length === 0) return EXIT.ok;
  if (!flags.yes) {
    process.stdout.write(`To delete: ${total(unused)}. Delete them with --yes.\n`);
    return EXIT.ok;
  }
  for (const { path } of unused) rmSync(path, { recursive: true, force: true });
  process.stdout.write(`Deleted: ${total(unused)}\n`);
  return EXIT.ok;
});

/** The content of the cache, the largest first. */
function readCache(root: string): Entry[] {
  const stacks = namesIn(join(root, 'local')).map((id) => readStack(join(root, 'local', id)));
  const isServing = stacks.some(({ inUse }) => inUse !== undefined);
  const others = namesIn(root)
    .filter((name) => name !== 'local' && !/\.lock(\.|$)/.test(name))
    .map((name): Entry => {
      const path = join(root, name);
      const inUse = OF_MODELS.test(name) && isServing ? 'npm run local is running' : undefined;
      return { path, what: name, bytes: diskUsage(path), usedAt: usedAt(path, '.complete'), inUse };
    });
  for (const entry of others) {
    const versions = others.filter(({ what }) => program(what) === program(entry.what));
    if (Date.now() - entry.usedAt.getTime() < HOUR_MS) entry.inUse ??= 'used in the last hour';
    else if (!OF_MODELS.test(entry.what) && versions.every(({ usedAt }) => usedAt <= entry.usedAt))
      entry.inUse ??= 'newest version';
  }
  return [...stacks, ...others].sort((a, b) => b.bytes - a.bytes);
}

function readStack(path: string): Entry {
  const repository = /^Bucket and logs of "npm run local" for (.*)\. You can/.exec(read(join(path, 'README')))?.[1];
  return {
    path,
    what: `bucket of ${repository ?? path}`,
    bytes: diskUsage(path),
    usedAt: usedAt(path, 'README'),
    inUse: isAlive(Number(read(join(path, 'lock')))) ? 'npm run local is running' : undefined,
  };
}

/** The name of a program without its version: `python` of `python3.11-0a1b2c`. */
const program = (name: string): string => name.replace(/[-v]*\d.*$/, '');

/** Commands touch the file `mark` of what they use. */
const usedAt = (path: string, mark: string): Date =>
  (statSync(join(path, mark), { throwIfNoEntry: false }) ?? statSync(path)).mtime;

const namesIn = (folder: string): string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return []; // No command has used the cache yet.
  }
};

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};
