import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { AskedModels } from './ask-models';

/** What Triton was last asked to load of one model. */
export interface LoadNote {
  /** False from before a load request until its answer, and after a restart of Triton. */
  sure: boolean;
  /** Name of a unit -> its content. */
  units: Record<string, string>;
  config: string;
}

/** What an agent remembers across restarts. */
export interface Notes {
  /** The repository that the other notes are about: `s3://BUCKET/PREFIX`. */
  location: string | undefined;
  /** The last release of head.json that this pod served, and whose files are complete on its disk. */
  home: string | undefined;
  /** How its models answered, as far as they were asked. */
  asked: AskedModels;
  /** The last head.json that was read. An older generation is ignored. */
  head: { generation: number; release: string; manifestSha256: string } | undefined;
  /** By model. */
  loads: Record<string, LoadNote>;
}

const NOTHING_KNOWN: Notes = { location: undefined, home: undefined, asked: {}, head: undefined, loads: {} };

/** The notes in a file, which is replaced as a whole. */
export class NoteFile {
  readonly notes: Notes;
  /** Why the file could not be read. The notes then are those of a new pod: all models are loaded again. */
  readonly problem: string | undefined;

  /** @param location the repository; of another one, only what Triton has loaded is remembered */
  constructor(
    private readonly path: string,
    location: string,
  ) {
    mkdirSync(dirname(path), { recursive: true });
    let read: Partial<Notes> = {};
    try {
      if (existsSync(path)) read = requireNotes(JSON.parse(readFileSync(path, 'utf8')));
    } catch (error) {
      this.problem = `cannot read ${path}: ${(error as Error).message}; every model is loaded again`;
    }
    // A generation and a release of another repository say nothing about this one.
    const kept = (read.location ?? location) === location ? read : { loads: read.loads ?? {} };
    const { loads, asked, ...others } = { ...structuredClone(NOTHING_KNOWN), ...kept, location };
    this.notes = { ...others, loads: withoutPrototype(loads), asked: withoutPrototype(asked) };
  }

  save(): void {
    const temporary = `${this.path}.unfinished`;
    rmSync(temporary, { force: true });
    writeFileSync(temporary, JSON.stringify(this.notes));
    renameSync(temporary, this.path);
  }
}

/** The record with its own keys only: a model may be called `constructor`. */
export const withoutPrototype = <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
  Object.assign(Object.create(null) as Record<string, T>, record);

/** Whether a value has the type that a field of the notes needs. */
type Check = (value: unknown) => boolean;
const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isLoad: Check = (value) => {
  const { sure, units, config } = (value ?? {}) as Partial<LoadNote>;
  return typeof sure === 'boolean' && isObject(units) && typeof config === 'string';
};
const isHead: Check = (value) => {
  const { generation, release, manifestSha256 } = (value ?? {}) as Partial<NonNullable<Notes['head']>>;
  return Number.isSafeInteger(generation) && typeof release === 'string' && typeof manifestSha256 === 'string';
};
const FIELDS: Record<keyof Notes, Check> = {
  location: (value) => typeof value === 'string',
  home: (value) => typeof value === 'string',
  asked: isObject,
  head: isHead,
  loads: (value) => isObject(value) && Object.values(value as object).every(isLoad),
};

function requireNotes(content: unknown): Partial<Notes> {
  if (!isObject(content)) throw new Error('it is not a JSON object');
  const notes = content as Partial<Notes>;
  for (const [name, check] of Object.entries(FIELDS)) {
    const value = notes[name as keyof Notes];
    if (value !== undefined && !check(value)) throw new Error(`${name} is ${JSON.stringify(value).slice(0, 100)}`);
  }
  return notes;
}
