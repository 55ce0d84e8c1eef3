import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Asked } from '../release/ask';
import { boolean, count, map, object, optional, text, type Read } from '../release/format';
import type { AskedModels } from './ask-models';
import { replaceFile } from './pod-files';

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

const readNotes = object<Partial<Notes>>({
  location: optional(text()),
  home: optional(text()),
  asked: optional(map(text() as Read<Asked>)),
  head: optional(object({ generation: count(), release: text(), manifestSha256: text() })),
  loads: optional(map(object<LoadNote>({ sure: boolean, units: map(text()), config: text() }))),
});

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
      if (existsSync(path)) read = readNotes(JSON.parse(readFileSync(path, 'utf8')), '');
    } catch (error) {
      this.problem = `cannot read ${path}: ${(error as Error).message}; every model is loaded again`;
    }
    // A generation and a release of another repository say nothing about this one.
    const { home, head, asked = {}, loads = {} } = read;
    const isSame = (read.location ?? location) === location;
    this.notes = {
      location,
      home: isSame ? home : undefined,
      head: isSame ? head : undefined,
      asked: withoutPrototype(isSame ? asked : {}),
      loads: withoutPrototype(loads),
    };
  }

  save(): void {
    replaceFile(this.path, JSON.stringify(this.notes));
  }
}

/** The record with its own keys only: a model may be called `constructor`. */
export const withoutPrototype = <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
  Object.assign(Object.create(null) as Record<string, T>, record);
