import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cleanup } from '../../src/core/cleanup';

/** A temporary folder for one test file, and clean-up steps, which run in reverse order. */
export class Scratch {
  readonly directory = mkdtempSync(join(tmpdir(), 'triton-serving-test-'));
  private readonly undo = new Cleanup();
  private cleaned = false;

  /** Adds a clean-up step. Runs the step immediately if the folder is already cleaned, as after a hook's timeout. */
  defer(step: () => Promise<void> | void): void {
    if (this.cleaned) void step();
    else this.undo.defer(step);
  }

  /** For afterAll. Runs all steps, even if one fails. */
  async clean(): Promise<void> {
    this.cleaned = true;
    try {
      await this.undo.run();
    } finally {
      rmSync(this.directory, { recursive: true, force: true });
    }
  }
}
