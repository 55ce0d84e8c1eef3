import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Undo } from '../../src/core/undo';

/** A folder for one test file, and what has to be undone at its end, in reverse order. */
export class Scratch {
  readonly directory = mkdtempSync(join(tmpdir(), 'triton-serving-test-'));
  private readonly undo = new Undo();
  private cleaned = false;

  /** What was begun too late, by a hook whose time was up, is undone at once: nobody else would. */
  defer(step: () => Promise<void> | void): void {
    if (this.cleaned) void step();
    else this.undo.defer(step);
  }

  /** For afterAll. Runs every step, also when one before it fails. */
  async clean(): Promise<void> {
    this.cleaned = true;
    try {
      await this.undo.run();
    } finally {
      rmSync(this.directory, { recursive: true, force: true });
    }
  }
}
