import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Enough for the notes, links and configurations of hundreds of models. */
const BYTES = 2 * 1024 * 1024;

/**
 * Space on the agent's disk that is kept for the way back to the release that was served: if the disk becomes full during
 * a trial, links and notes could not be written, and the pod would serve nothing.
 */
export class SpareSpace {
  private readonly path: string;

  constructor(directory: string) {
    this.path = join(directory, 'spare');
  }

  /** Keeps the space, unless the disk is full. */
  keep(): void {
    if (existsSync(this.path)) return;
    const temporary = `${this.path}.unfinished`;
    try {
      writeFileSync(temporary, Buffer.alloc(BYTES, 1)); // Zeros may take no space.
      renameSync(temporary, this.path);
    } catch {
      rmSync(temporary, { force: true }); // Tried again when files were deleted.
    }
  }

  /** Frees the space if this is the error of a full disk. */
  freeAfter(error: unknown): void {
    for (let cause = error as NodeJS.ErrnoException | undefined; cause; cause = cause.cause as typeof cause) {
      if (cause.code === 'ENOSPC') rmSync(this.path, { force: true });
    }
  }
}
