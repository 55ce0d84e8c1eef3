import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder for one test file, and what has to be undone at its end, in reverse order. */
export class Scratch {
  readonly directory = mkdtempSync(join(tmpdir(), 'triton-serving-test-'));
  private readonly undo: (() => Promise<void> | void)[] = [];
  private cleaned = false;

  /** What was begun too late, by a hook whose time was up, is undone at once: nobody else would. */
  defer(step: () => Promise<void> | void): void {
    if (this.cleaned) void step();
    else this.undo.push(step);
  }

  /** For afterAll. Runs every step, also when one before it fails. */
  async clean(): Promise<void> {
    this.cleaned = true;
    const errors: unknown[] = [];
    for (const step of this.undo.splice(0).reverse()) {
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
