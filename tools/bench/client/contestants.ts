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

/** One measured case: a protocol, a tensor size, and the number of concurrent requests. */
export interface Cell {
  protocol: Protocol;
  /** FP32 elements of the input and of the output. */
  elements: number;
  concurrency: number;
}

/** Result of one run of a tool. */
export interface Sample {
  requestsPerSecond: number;
  /** Latency in milliseconds. */
  p50: number;
  p99: number;
}

export interface Course {
  server: TritonServer;
  python: string;
  /** Folder that contains tritonclient. */
  tritonclient: string;
  perfAnalyzer: PerfAnalyzer;
  /** Scratch folder of the tools. */
  directory: string;
  /** Duration of each run, after a warm-up. */
  seconds: number;
}

const LONGEST_WINDOW_MS = 8000;
const PEER = join(paths.tools, 'bench', 'client', 'peer.py');

/** The tools for a cell by name, ours first. Each run is a separate process. */
export function contestants(course: Course, cell: Cell): Map<string, () => Promise<Sample>> {
  // Over HTTP the asyncio client is slower in every cell, and ten times slower with large tensors.
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

/** Time after which perf_analyzer counts as hung. It does hang over HTTP with many concurrent small requests. */
const PERF_ANALYZER_TIMEOUT_MS = 30_000;
const NO_FIGURES: Sample = { requestsPerSecond: NaN, p50: NaN, p99: NaN };

/**
 * Runs perf_analyzer with three windows, its minimum, of half the duration each. Doubles the windows if too few
 * requests completed in one.
 * @returns NaN for all figures if it hangs
 */
async function runPerfAnalyzer(course: Course, cell: Cell, windowMs = course.seconds * 500): Promise<Sample> {
  const { server, perfAnalyzer, directory } = course;
  const report = join(directory, 'perf-analyzer.csv');
  const args = [
    ...['-m', MODEL, '-x', '1', '-i', cell.protocol === 'HTTP' ? 'http' : 'grpc', '-u', address(server, cell)],
    ...['--shape', `x:${cell.elements}`, '--concurrency-range', String(cell.concurrency), '-f', report],
    // Disables the stability check of perf_analyzer, because every tool gets exactly one run.
    ...['--measurement-interval', String(windowMs), '--stability-percentage', '999', '--max-trials', '3'],
    ...['--percentile', '50'],
    // perf_analyzer requests the statistics of the model, which need the key.
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

/** Reads perf_analyzer's report, which has one row and times in microseconds. */
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

/** The address without the scheme, as NVIDIA's clients expect it. */
function address({ httpUrl, grpcAddress }: TritonServer, { protocol }: Cell): string {
  return protocol === 'HTTP' ? httpUrl.replace('http://', '') : grpcAddress;
}
