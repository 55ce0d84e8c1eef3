import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cleanup } from '../../src/core/cleanup';

/** Runs `work` in a temporary folder. Afterwards runs the steps that `work` deferred to `undo`, and removes the folder. */
export async function inScratch<T>(work: (directory: string, undo: Cleanup) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  const undo = new Cleanup();
  undo.defer(() => rmSync(directory, { recursive: true, force: true }));
  try {
    return await work(directory, undo);
  } finally {
    await undo.run();
  }
}
