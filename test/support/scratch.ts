import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder for one test file, and what has to be undone at its end, in reverse order. */
export class Scratch {
  readonly directory = mkdtempSync(join(tmpdir(), 'triton-serving-test-'));
  private readonly undo: (() => Promise<void> | void)[] = [];

  defer(step: () => Promise<void> | void): void {
    this.undo.push(step);
  }

  /** For afterAll. Runs every step, also when one before it fails. */
  async clean(): Promise<void> {
    const errors: unknown[] = [];
    for (const step of this.undo.reverse()) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    rmSync(this.directory, { recursive: true, force: true });
    if (errors.length > 0) throw errors[0];
  }
}
