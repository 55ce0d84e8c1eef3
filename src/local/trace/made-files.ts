import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { readTraceRecord } from '../../model/trace-record';
import { isVersion } from '../../model/versions';

const HEADER =
  '# Written by npm run trace, which made these files. Everything else here is yours, and belongs into Git.\n';
const RECORD = '.trace.json';

/**
 * Writes a .gitignore for the files that `npm run trace` made in a model folder. It lists exactly these files and
 * itself, because a rule by name could not distinguish a traced model.pt from a file that the user added.
 *
 * A user's own .gitignore is not changed. Our .gitignore is removed when it would list no file.
 *
 * @param folder the model folder
 * @param fetched paths of downloaded files, relative to the model folder
 */
export function ignoreMadeFiles(folder: string, fetched: readonly string[] = []): void {
  const entries = readdirSync(folder, { withFileTypes: true });
  const versions = entries.filter((entry) => entry.isDirectory() && isVersion(entry.name)).map(({ name }) => name);
  const traced = existsSync(join(folder, 'trace.py'))
    ? versions.flatMap((version) => tracedFiles(folder, version))
    : [];
  const made = [...traced, ...fetched].filter((path) => existsSync(join(folder, path)));
  const places = [
    '.',
    ...versions,
    ...versions.map((version) => join('golden', version)),
    ...[...made, ...fetched].map(dirname),
  ];
  for (const place of new Set(places)) {
    const names = made.filter((path) => dirname(path) === place).map((path) => basename(path));
    update(join(folder, place), names);
  }
}

/** Returns the files that the trace records of a version list, as paths in the model folder. */
function tracedFiles(folder: string, version: string): string[] {
  const records = readdirSync(join(folder, version)).filter((name) => name.endsWith(RECORD));
  return records.flatMap((name) => [join(version, name), ...recordedFiles(folder, join(version, name))]);
}

/** Returns the files of one record that still have the recorded size; others may have been replaced by the user. */
function recordedFiles(folder: string, record: string): string[] {
  const { artifact, dataFiles = [], otherFiles = [] } = readTraceRecord(join(folder, record)) ?? {};
  return [...(artifact === undefined ? [] : [artifact]), ...dataFiles, ...otherFiles]
    .filter(({ path, bytes }) => {
      const file = statSync(join(folder, path), { throwIfNoEntry: false });
      return file?.isFile() === true && file.size === bytes;
    })
    .map(({ path }) => normalize(path));
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
    // A user without write access to the repository does not commit from it either.
  }
}
