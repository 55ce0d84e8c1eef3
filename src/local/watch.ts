import { promises as fs, type Stats } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { GOLDEN_FOLDER } from '../model/golden';
import { readTraceRecord } from '../model/trace-record';

/** A change is reported only if two checks find the same files, because an editor or a copy may still be writing. */
const LOOK_MS = 700;

/** Model -> its files with size and time. */
export type Fingerprints = ReadonlyMap<string, string>;

/**
 * Fingerprints of the user's files in each folder of a model repository. Files that tracing writes are left out,
 * because each trace would otherwise cause another one.
 */
export async function fingerprints(repository: string): Promise<Fingerprints> {
  const entries = await fs.readdir(repository, { withFileTypes: true }).catch(() => []);
  const found = new Map<string, string>();
  for (const entry of entries) {
    if (entry.isFile() || entry.name.startsWith('.')) continue;
    const text = await fingerprint(path.join(repository, entry.name));
    if (text !== '') found.set(entry.name, text);
  }
  return found;
}

async function fingerprint(directory: string): Promise<string> {
  const files = await filesUnder(directory);
  const all = new Set(files.map(({ name }) => name));
  const recorded = new Set(
    files
      .filter(({ name }) => name.endsWith('.trace.json'))
      .map(({ name }) => readTraceRecord(path.join(directory, name)))
      .flatMap((record) => [...(record?.dataFiles ?? []), ...(record?.otherFiles ?? [])])
      .map((file) => file.path),
  );
  return files
    .filter(({ name }) => !recorded.has(name) && !isOfTools(name, all))
    .map(({ name, stat }) => `${name} ${stat.size} ${stat.mtimeMs}`)
    .sort()
    .join('\n');
}

interface Found {
  /** Path in the folder of the model. */
  name: string;
  stat: Stats;
}

/**
 * Returns the files in a folder, including linked folders.
 * @param within real paths of the folder's parents; links to them are not followed
 */
async function filesUnder(directory: string, prefix = '', within: readonly string[] = []): Promise<Found[]> {
  const real = await fs.realpath(directory).catch(() => undefined);
  if (real === undefined || within.includes(real)) return [];
  const found: Found[] = [];
  for (const entry of await fs.readdir(directory).catch(() => [])) {
    const [name, file] = [path.join(prefix, entry), path.join(directory, entry)];
    const stat = await fs.stat(file).catch(() => undefined);
    if (stat?.isFile() === true) found.push({ name, stat });
    if (stat?.isDirectory() === true) found.push(...(await filesUnder(file, name, [...within, real])));
  }
  return found;
}

function isOfTools(name: string, all: ReadonlySet<string>): boolean {
  const parts = name.split(path.sep);
  if (parts.some((part) => part.startsWith('.') || part === '__pycache__')) return true;
  if (parts[0] === GOLDEN_FOLDER && (parts.at(-1) ?? '').startsWith('traced-')) return true;
  return name.endsWith('.trace.json') || all.has(`${name}.trace.json`);
}

/**
 * Calls `onChange` with the models whose files changed, until the signal is aborted. Polls instead of using file
 * notifications, because notifications are limited in number and miss files of network and shared folders, and a
 * repository has few files.
 *
 * @param seen fingerprints at the start
 */
export async function watchModels(
  repository: string,
  seen: Fingerprints,
  onChange: (models: string[]) => void,
  signal: AbortSignal,
): Promise<void> {
  let reported = seen;
  let before = seen;
  for (;;) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const now = await fingerprints(repository);
    const changed = [...new Set([...now.keys(), ...reported.keys()])]
      .filter((name) => now.get(name) !== reported.get(name) && now.get(name) === before.get(name))
      .sort();
    before = now;
    if (changed.length === 0) continue;
    reported = new Map(
      [...now].map(([name, text]) => [name, changed.includes(name) ? text : (reported.get(name) ?? '')]),
    );
    onChange(changed);
  }
}
