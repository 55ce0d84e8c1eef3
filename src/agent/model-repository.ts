import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync, statSync, utimesSync } from 'node:fs';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { ContentStore, Unit } from './content-store';
import type { LoadNote } from './notes';
import { replace, UNFINISHED } from './pod-files';

export interface ModelFolder {
  config: string;
  units: readonly Unit[];
}

const CONFIG_FILE = 'config.pbtxt';

/** Steps of the clock by which a changed file is made newer, in ns. A whole number of µs, because utimes rounds. */
const STEP_NS = 1_000_000n;

/**
 * The folder that Triton reads. Its models consist of symbolic links into the content store and a config.pbtxt.
 *
 * Triton decides by file times what to load, where the time of a file is the later one of its modification and its
 * change. A load does nothing, and succeeds, unless the newest time of the model grew; a version that is loaded stays
 * unless its own time, or that of a file beside it, did. So a file that Triton may not have loaded gets a time later than
 * all others of its model, and a file that Triton has loaded keeps its time. test/proof/Switch.tla specifies this, and
 * test/real/triton-reload.test.ts shows Triton's rules on a server.
 */
export class ModelRepository {
  constructor(
    readonly directory: string,
    private readonly store: ContentStore,
  ) {}

  /**
   * Writes a model's folder: first the links, then config.pbtxt, whose policy names the versions.
   * @param note what Triton was last asked to load
   * @returns whether Triton has to load the model
   */
  write(model: string, { config, units }: ModelFolder, note: LoadNote | undefined): boolean {
    const folder = join(this.directory, model);
    mkdirSync(folder, { recursive: true });
    const clock = new LaterClock(folder);
    const isSure = note?.sure === true;
    const isLoaded = ({ name, content }: Unit): boolean => isSure && note.units[name] === content;
    const desired = new Set(units.map(({ name }) => name));
    const present = namesIn(folder);
    const isExtra = (name: string): boolean => !desired.has(name) && !isVersion(name);
    // Triton does not notice that a file beside the versions is gone. It never had the files of a load that it refused.
    const gone = [...(isSure ? [] : present), ...Object.keys(note?.units ?? {})].filter(isExtra);
    let changed = gone.length > 0;
    for (const unit of units) {
      const path = join(folder, unit.name);
      const target = relative(folder, this.store.path(unit));
      const isNew = !isLoaded(unit) || (unit.isVersion && gone.length > 0);
      if (isNew) clock.touch(this.store.path(unit));
      changed ||= isNew || linkTarget(path) !== target;
      if (linkTarget(path) !== target) replace(path, (temporary) => symlinkSync(target, temporary));
    }
    for (const name of present.filter(isExtra)) rmSync(join(folder, name), { recursive: true, force: true });
    const configPath = join(folder, CONFIG_FILE);
    changed ||=
      !isSure || note.config !== config || !existsSync(configPath) || readFileSync(configPath, 'utf8') !== config;
    if (!changed) return false;
    replace(configPath, (temporary) => {
      writeFileSync(temporary, config);
      clock.touch(temporary);
    });
    return true;
  }

  /** Removes the links to versions that are not served. */
  clean(model: string, { units }: Pick<ModelFolder, 'units'>): void {
    const desired = new Set(units.map(({ name }) => name));
    const folder = join(this.directory, model);
    for (const name of namesIn(folder)) if (!desired.has(name)) rmSync(join(folder, name), { recursive: true });
  }

  models(): string[] {
    return existsSync(this.directory) ? readdirSync(this.directory) : [];
  }

  remove(model: string): void {
    rmSync(join(this.directory, model), { recursive: true, force: true });
  }
}

const isVersion = (name: string): boolean => /^[1-9]\d*$/.test(name);

/** Names in a model's folder but config.pbtxt and files that a process that died was writing. */
function namesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).filter((name) => name !== CONFIG_FILE && !name.endsWith(UNFINISHED));
}

function linkTarget(path: string): string | undefined {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? readlinkSync(path) : undefined;
}

/** Gives files times that are later than those of the clock and of every file of a model. */
class LaterClock {
  private newest: bigint;

  constructor(folder: string) {
    this.newest = getTime(folder);
  }

  touch(path: string): void {
    const now = BigInt(Date.now()) * 1_000_000n;
    this.newest = (this.newest > now ? this.newest : now) + STEP_NS;
    // utimes takes seconds as a floating-point number, which is exact to about half a microsecond.
    const seconds = Number(this.newest / 1000n) / 1e6;
    utimesSync(path, seconds, seconds);
  }
}

/** The time by which Triton compares a file, or a folder with all that is in it, in ns. 0 if it is gone. */
function getTime(path: string): bigint {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (stat === undefined) return 0n;
  const own = later(stat.mtimeNs, stat.ctimeNs);
  if (!stat.isDirectory()) return own;
  // The files of a folder can be newer than the folder: the clock may have been set back after their download.
  return readdirSync(path)
    .map((name) => getTime(join(path, name)))
    .reduce(later, own);
}

const later = (a: bigint, b: bigint): bigint => (a > b ? a : b);
