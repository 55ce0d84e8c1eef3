import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isVersion } from '../model/versions';

const HEADER =
  '# Written by npm run trace, which made these files. Everything else here is yours, and belongs into Git.\n';
const RECORD = '.trace.json';

/**
 * Writes a .gitignore beside the files that `npm run trace` made in a model folder, listing exactly these and itself.
 *
 * A rule by name could not tell a traced model.pt from one that a person put there. A .gitignore of the user's own is
 * left alone; one of ours that lists nothing any more is removed.
 *
 * @param folder the model folder
 * @param fetched paths in it, of files that were downloaded there
 */
export function ignoreMadeFiles(folder: string, fetched: readonly string[] = []): void {
  const entries = readdirSync(folder, { withFileTypes: true });
  const versions = entries.filter((entry) => entry.isDirectory() && isVersion(entry.name)).map(({ name }) => name);
  const traced = existsSync(join(folder, 'trace.py'))
    ? versions.flatMap((version) => tracedFiles(folder, version))
    : [];
  const made = [...traced, ...fetched].filter((path) => existsSync(join(folder, path)));
  const places = ['.', ...versions, ...versions.map((version) => join('golden', version)), ...fetched.map(dirname)];
  for (const place of new Set(places)) {
    const names = made.filter((path) => dirname(path) === place).map((path) => basename(path));
    update(join(folder, place), names);
  }
}

/** What the records of a version say was made, as paths in the model folder. */
function tracedFiles(folder: string, version: string): string[] {
  const records = readdirSync(join(folder, version)).filter((name) => name.endsWith(RECORD));
  return records.flatMap((name) => [join(version, name), ...recordedFiles(folder, join(version, name))]);
}

/** Those of one record that are still what was made: a person may have put others in their place. */
function recordedFiles(folder: string, record: string): string[] {
  interface File {
    path: string;
    bytes: number;
  }
  let files: File[];
  try {
    const read = JSON.parse(readFileSync(join(folder, record), 'utf8')) as Record<
      'data_files' | 'extra_files' | 'golden',
      File[]
    > & { artifact: File };
    files = [read.artifact, ...read.data_files, ...read.extra_files, ...read.golden];
  } catch {
    return []; // It is no record of ours.
  }
  return files
    .filter(({ path, bytes }) => statSync(join(folder, path), { throwIfNoEntry: false })?.size === bytes)
    .map(({ path }) => path);
}

function update(directory: string, names: readonly string[]): void {
  const file = join(directory, '.gitignore');
  const before = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  if (before !== undefined && !before.startsWith(HEADER)) return;
  const lines = [...new Set(['.gitignore', ...names])].sort().map((name) => `/${name.replace(/[\\*?[ ]/g, '\\$&')}\n`);
  const text = names.length === 0 ? undefined : HEADER + lines.join('');
  if (text === before) return;
  try {
    if (text === undefined) rmSync(file);
    else writeFileSync(file, text);
  } catch {
    // A repository that cannot be written to is not committed from either.
  }
}
