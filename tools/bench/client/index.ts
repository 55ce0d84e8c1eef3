import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '../../../src/core/errors';
import type { Progress } from '../../../src/cli/progress';
import { ensurePython } from '../../../src/install/python';
import { ensureTriton } from '../../../src/install/triton';
import { freeTritonPorts, startTriton } from '../../../src/local/triton-server';
import { Undo } from '../../../src/core/undo';
import { rounds } from '../rounds';
import { contestants, MODEL, type Cell, type Course } from './contestants';
import { ensureIdentityBackend, ensurePerfAnalyzer, ensureTritonclient } from './peers';
import type { CellResult } from './report';

export { cellJson, cellTable, type CellResult } from './report';

export interface ClientBenchOptions {
  /** Counted rounds of each cell. */
  repetitions: number;
  /** `http`, `grpc`. Default: both. */
  rows?: readonly string[] | undefined;
  progress: Progress;
  /** Called with each cell after its measurement. */
  onCell: (result: CellResult) => void;
}

/** Duration of each run. */
const SECONDS = 1;
/** Elements of a small tensor, and of one with 3 MB. */
const ELEMENTS = [16, 750_000];
const CONCURRENCY = [1, 8, 32];

const CELLS: readonly Cell[] = (['HTTP', 'gRPC'] as const).flatMap((protocol) =>
  ELEMENTS.flatMap((elements) => CONCURRENCY.map((concurrency) => ({ protocol, elements, concurrency }))),
);

const CONFIG = `backend: "identity"
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "x" data_type: TYPE_FP32 dims: -1 }
instance_group { count: 2 kind: KIND_CPU }
`;

/** Compares our client with NVIDIA's, on one server with a model that takes no time. */
export async function benchClient({ repetitions, rows, progress, onCell }: ClientBenchOptions): Promise<CellResult[]> {
  const cells = chooseCells(rows);
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  const undo = new Undo();
  undo.defer(() => rmSync(scratch, { recursive: true, force: true }));
  try {
    const environment = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    const installation = await ensureTriton(environment);
    const tritonclient = await progress.run('tritonclient', () => ensureTritonclient(environment));
    const perfAnalyzer = await progress.run('perf_analyzer', () =>
      ensurePerfAnalyzer(environment.python, installation),
    );
    const folder = join(scratch, 'repository', MODEL);
    mkdirSync(join(folder, '1'), { recursive: true });
    writeFileSync(join(folder, 'config.pbtxt'), CONFIG);
    copyFileSync(await ensureIdentityBackend(), join(folder, 'libtriton_identity.so'));
    const server = await startTriton({
      installation,
      environment,
      repository: join(scratch, 'repository'),
      directory: join(scratch, 'triton'),
      ports: await freeTritonPorts(),
      startTimeoutMs: 60_000,
    });
    undo.defer(() => server.stop());
    const { python } = environment;
    const course: Course = { server, python, tritonclient, perfAnalyzer, directory: scratch, seconds: SECONDS };
    const results: CellResult[] = [];
    for (const cell of cells) {
      const title = `${cell.protocol}, ${cell.elements} elements, ${cell.concurrency} at a time`;
      const samples = await progress.run(title, (step) =>
        rounds(contestants(course, cell), repetitions, (round, name) => step.update(`round ${round}, ${name}`)),
      );
      const result = { ...cell, samples };
      onCell(result);
      results.push(result);
    }
    return results;
  } finally {
    await undo.run();
  }
}

function chooseCells(rows: readonly string[] | undefined): readonly Cell[] {
  if (rows === undefined) return CELLS;
  const protocols = CELLS.map(({ protocol }) => protocol.toLowerCase());
  for (const row of rows) {
    if (!protocols.includes(row)) throw new UsageError(`--rows ${row}: no such row`, { hint: 'http, grpc' });
  }
  return CELLS.filter(({ protocol }) => rows.includes(protocol.toLowerCase()));
}
