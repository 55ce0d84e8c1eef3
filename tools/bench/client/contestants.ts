import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { CommandError, CommandTimeout, exec } from '../../../src/core/exec';
import { writeNpy } from '../../../src/media/npy';
import { paths } from '../../../src/core/paths';
import { CONTROL_HEADER } from '../../../src/triton/control-key';
import type { TritonServer } from '../../../src/local/triton-server';
import type { PerfAnalyzer } from './peers';

export const MODEL = 'identity';
export const OURS = 'npm run infer';
export const PERF_ANALYZER = 'perf_analyzer';

export type Protocol = 'HTTP' | 'gRPC';

/** One thing that is measured: a protocol, a size of tensor, and how many requests are in flight. */
export interface Cell {
  protocol: Protocol;
  /** FP32, there and back. */
  elements: number;
  concurrency: number;
}

/** What one run of a contestant told. */
export interface Sample {
  requestsPerSecond: number;
  /** Milliseconds. */
  p50: number;
  p99: number;
}

export interface Course {
  server: TritonServer;
  python: string;
  /** Folder with tritonclient. */
  tritonclient: string;
  perfAnalyzer: PerfAnalyzer;
  /** For files of the contestants. */
  directory: string;
  /** Of each run, after a warm-up. */
  seconds: number;
}

const LONGEST_WINDOW_MS = 8000;
const PEER = join(paths.tools, 'bench', 'client', 'peer.py');

/** Programs for a cell by name, ours first. Each run is a process of its own. */
export function contestants(course: Course, cell: Cell): Map<string, () => Promise<Sample>> {
  // Over HTTP its asyncio form is the slower one in every cell, with large tensors ten times slower.
  const forms = cell.protocol === 'HTTP' ? ['http-threads'] : ['grpc-threads', 'grpc-asyncio'];
  return new Map([
    [OURS, () => runOurs(course, cell)],
    ...forms.map((form): [string, () => Promise<Sample>] => [
      `tritonclient, ${form.split('-')[1] ?? ''}`,
      () => runTritonclient(course, cell, form),
    ]),
    [PERF_ANALYZER, () => runPerfAnalyzer(course, cell)],
  ]);
}

async function runOurs({ server, directory, seconds }: Course, cell: Cell): Promise<Sample> {
  const file = join(directory, `x-${cell.elements}.npy`);
  const data = Float32Array.from({ length: cell.elements }, (_, i) => i);
  writeFileSync(file, writeNpy({ name: 'x', datatype: 'FP32', shape: [cell.elements], data }));
  const address = cell.protocol === 'HTTP' ? ['--url', server.httpUrl] : ['--grpc', server.grpcAddress];
  const load = ['--bench', '--json', '--duration', String(seconds), '--concurrency', String(cell.concurrency)];
  const run = [join(paths.scripts, 'run.mjs'), 'infer', MODEL, `x=${file}`, ...address, ...load];
  const { stdout } = await exec(process.execPath, run);
  const { requestsPerSecond, p50, p99 } = JSON.parse(stdout) as Sample;
  return { requestsPerSecond, p50, p99 };
}

async function runTritonclient(course: Course, cell: Cell, form: string): Promise<Sample> {
  const { server, python, tritonclient, seconds } = course;
  const numbers = [cell.elements, cell.concurrency, seconds].map(String);
  const { stdout } = await exec(python, [PEER, form, address(server, cell), MODEL, ...numbers], {
    env: { ...process.env, PYTHONPATH: tritonclient },
  });
  return JSON.parse(stdout) as Sample;
}

/** After which it is taken to hang, as it does over HTTP where there are many small requests at a time. */
const PERF_ANALYZER_TIMEOUT_MS = 30_000;
const NO_FIGURES: Sample = { requestsPerSecond: NaN, p50: NaN, p99: NaN };

/**
 * Three windows of half the time each, it takes no fewer; longer ones where too little was answered in one.
 * @returns with NaN where it hangs
 */
async function runPerfAnalyzer(course: Course, cell: Cell, windowMs = course.seconds * 500): Promise<Sample> {
  const { server, perfAnalyzer, directory } = course;
  const report = join(directory, 'perf-analyzer.csv');
  const args = [
    ...['-m', MODEL, '-x', '1', '-i', cell.protocol === 'HTTP' ? 'http' : 'grpc', '-u', address(server, cell)],
    ...['--shape', `x:${cell.elements}`, '--concurrency-range', String(cell.concurrency), '-f', report],
    // What is stable is not its to judge here: all contestants get one run.
    ...['--measurement-interval', String(windowMs), '--stability-percentage', '999', '--max-trials', '3'],
    ...['--percentile', '50'],
    // It asks for the statistics of the model.
    ...['-H', `${cell.protocol === 'HTTP' ? '' : 'triton-grpc-protocol-'}${CONTROL_HEADER}:${server.modelControlKey}`],
  ];
  const env = { ...process.env, LD_LIBRARY_PATH: `${perfAnalyzer.libraries}:${process.env['LD_LIBRARY_PATH'] ?? ''}` };
  try {
    await exec(perfAnalyzer.program, args, { env, timeoutMs: PERF_ANALYZER_TIMEOUT_MS });
  } catch (error) {
    if (error instanceof CommandTimeout) return NO_FIGURES;
    if (windowMs > LONGEST_WINDOW_MS || !(error instanceof CommandError)) throw error;
    return runPerfAnalyzer(course, cell, windowMs * 2);
  }
  return readReport(readFileSync(report, 'utf8'));
}

/** Reads its table of one row; times are in microseconds. */
export function readReport(text: string): Sample {
  const [headings = '', values = ''] = text.trim().split('\n');
  const row = new Map(headings.split(',').map((heading, i) => [heading, Number(values.split(',')[i])]));
  const field = (name: string): number => {
    const value = row.get(name);
    if (value === undefined || Number.isNaN(value)) throw new UserError(`perf_analyzer's report has no ${name}`);
    return value;
  };
  return {
    requestsPerSecond: field('Inferences/Second'),
    p50: field('p50 latency') / 1000,
    p99: field('p99 latency') / 1000,
  };
}

/** Without the scheme, as NVIDIA's clients want it. */
function address({ httpUrl, grpcAddress }: TritonServer, { protocol }: Cell): string {
  return protocol === 'HTTP' ? httpUrl.replace('http://', '') : grpcAddress;
}
