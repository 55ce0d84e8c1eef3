import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

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
  /** The last release of head.json that this pod served, and whose files are complete on its disk. */
  home: string | undefined;
  /** The last head.json that was read. An older generation is ignored. */
  head: { generation: number; release: string; manifestSha256: string } | undefined;
  /** By model. */
  loads: Record<string, LoadNote>;
}

/** The notes in a file, which is replaced as a whole. */
export class NoteFile {
  readonly notes: Notes;

  constructor(private readonly path: string) {
    mkdirSync(dirname(path), { recursive: true });
    this.notes = existsSync(path)
      ? (JSON.parse(readFileSync(path, 'utf8')) as Notes)
      : { home: undefined, head: undefined, loads: {} };
  }

  save(): void {
    const temporary = `${this.path}.unfinished`;
    rmSync(temporary, { force: true });
    writeFileSync(temporary, JSON.stringify(this.notes));
    renameSync(temporary, this.path);
  }
}
