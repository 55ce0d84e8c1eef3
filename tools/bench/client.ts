import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { UsageError, UserError } from '../../src/core/errors';
import { CommandError, CommandTimeoutError, exec } from '../../src/core/exec';
import { formatTable } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { ensurePython } from '../../src/install/python';
import { ensureTriton } from '../../src/install/triton';
import { freeTritonPorts, startTriton, type TritonProcess } from '../../src/local/triton-server';
import { writeNpy } from '../../src/media/npy';
import { CONTROL_HEADER } from '../../src/triton/control-key';
import { median, medianRatio, rounds } from './compare';
import { inScratch } from './scratch';
import { ensureIdentityBackend, ensurePerfAnalyzer, ensureTritonclient, type PerfAnalyzer } from './tools';

/** Duration of each run. */
const SECONDS = 1;
/** Elements of a small tensor, and of one with 3 MB. */
const ELEMENTS = [16, 750_000];
const CONCURRENCY = [1, 8, 32];

const SCENARIOS: readonly Scenario[] = (['HTTP', 'gRPC'] as const).flatMap((protocol) =>
  ELEMENTS.flatMap((elements) => CONCURRENCY.map((concurrency) => ({ protocol, elements, concurrency }))),
);

const CONFIG = `backend: "identity"
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "x" data_type: TYPE_FP32 dims: -1 }
instance_group { count: 2 kind: KIND_CPU }
`;

const MODEL = 'identity';
const INFER = 'npm run infer';
const PERF_ANALYZER = 'perf_analyzer';

type Protocol = 'HTTP' | 'gRPC';

/** One measured case: a protocol, a tensor size, and the number of concurrent requests. */
export interface Scenario {
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

interface Context {
  server: TritonProcess;
  python: string;
  /** Folder that contains tritonclient. */
  tritonclient: string;
  perfAnalyzer: PerfAnalyzer;
  /** Scratch folder of the tools. */
  directory: string;
  /** Duration of each run, after a warm-up. */
  seconds: number;
}

/** The samples of each tool, one for each round. */
export interface Measurement extends Scenario {
  samples: Map<string, Sample[]>;
}

/** Compares our client with NVIDIA's, on one server with a model that takes no time. */
export async function benchClient(repetitions: number, rows: readonly string[] | undefined): Promise<object> {
  const scenarios = chooseScenarios(rows);
  const progress = new Progress();
  return inScratch(async (scratch, undo) => {
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
    const context: Context = { server, python, tritonclient, perfAnalyzer, directory: scratch, seconds: SECONDS };
    const measurements: Measurement[] = [];
    for (const scenario of scenarios) {
      const title = `${scenario.protocol}, ${scenario.elements} elements, ${scenario.concurrency} concurrent requests`;
      const samples = await progress.run(title, (step) =>
        rounds(tools(context, scenario), repetitions, (round, name) => step.update(`round ${round}, ${name}`)),
      );
      measurements.push({ ...scenario, samples });
      process.stdout.write(`\n${measurementTable(measurements.slice(-1))}\n\n`);
    }
    process.stdout.write(`\n${measurementTable(measurements)}\n\n`);
    return { repetitions, measurements: measurements.map(measurementJson) };
  });
}

function chooseScenarios(rows: readonly string[] | undefined): readonly Scenario[] {
  if (rows === undefined) return SCENARIOS;
  const protocols = SCENARIOS.map(({ protocol }) => protocol.toLowerCase());
  for (const row of rows) {
    if (!protocols.includes(row)) throw new UsageError(`--rows ${row}: unknown row`, { hint: 'http, grpc' });
  }
  return SCENARIOS.filter(({ protocol }) => rows.includes(protocol.toLowerCase()));
}

const LONGEST_WINDOW_MS = 8000;
const TRITONCLIENT_LOAD = join(paths.tools, 'bench', 'tritonclient_load.py');

/** The tools of a scenario by name, ours first. Each run is a separate process. */
function tools(context: Context, scenario: Scenario): Map<string, () => Promise<Sample>> {
  // Over HTTP the asyncio client is slower in every scenario, and ten times slower with large tensors.
  const forms = scenario.protocol === 'HTTP' ? ['http-threads'] : ['grpc-threads', 'grpc-asyncio'];
  return new Map([
    [INFER, () => runInfer(context, scenario)],
    ...forms.map((form): [string, () => Promise<Sample>] => [
      `tritonclient, ${form.split('-')[1] ?? ''}`,
      () => runTritonclient(context, scenario, form),
    ]),
    [PERF_ANALYZER, () => runPerfAnalyzer(context, scenario)],
  ]);
}

async function runInfer({ server, directory, seconds }: Context, scenario: Scenario): Promise<Sample> {
  const file = join(directory, `x-${scenario.elements}.npy`);
  const data = Float32Array.from({ length: scenario.elements }, (_, i) => i);
  writeFileSync(file, writeNpy({ name: 'x', datatype: 'FP32', shape: [scenario.elements], data }));
  const address = scenario.protocol === 'HTTP' ? ['--url', server.httpUrl] : ['--grpc', server.grpcAddress];
  const load = ['--bench', '--json', '--duration', String(seconds), '--concurrency', String(scenario.concurrency)];
  const run = [join(paths.scripts, 'run.mjs'), 'infer', MODEL, `x=${file}`, ...address, ...load];
  const { stdout } = await exec(process.execPath, run);
  const { requestsPerSecond, p50, p99 } = JSON.parse(stdout) as Sample;
  return { requestsPerSecond, p50, p99 };
}

async function runTritonclient(context: Context, scenario: Scenario, form: string): Promise<Sample> {
  const { server, python, tritonclient, seconds } = context;
  const numbers = [scenario.elements, scenario.concurrency, seconds].map(String);
  const { stdout } = await exec(python, [TRITONCLIENT_LOAD, form, address(server, scenario), MODEL, ...numbers], {
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
async function runPerfAnalyzer(
  context: Context,
  scenario: Scenario,
  windowMs = context.seconds * 500,
): Promise<Sample> {
  const { server, perfAnalyzer, directory } = context;
  const report = join(directory, 'perf-analyzer.csv');
  const args = [
    ...['-m', MODEL, '-x', '1', '-i', scenario.protocol === 'HTTP' ? 'http' : 'grpc', '-u', address(server, scenario)],
    ...['--shape', `x:${scenario.elements}`, '--concurrency-range', String(scenario.concurrency), '-f', report],
    // Disables the stability check of perf_analyzer, because every tool gets exactly one run.
    ...['--measurement-interval', String(windowMs), '--stability-percentage', '999', '--max-trials', '3'],
    ...['--percentile', '50'],
    // perf_analyzer requests the statistics of the model, which need the key.
    ...[
      '-H',
      `${scenario.protocol === 'HTTP' ? '' : 'triton-grpc-protocol-'}${CONTROL_HEADER}:${server.modelControlKey}`,
    ],
  ];
  const env = { ...process.env, LD_LIBRARY_PATH: `${perfAnalyzer.libraries}:${process.env['LD_LIBRARY_PATH'] ?? ''}` };
  try {
    await exec(perfAnalyzer.program, args, { env, timeoutMs: PERF_ANALYZER_TIMEOUT_MS });
  } catch (error) {
    if (error instanceof CommandTimeoutError) return NO_FIGURES;
    if (windowMs > LONGEST_WINDOW_MS || !(error instanceof CommandError)) throw error;
    return runPerfAnalyzer(context, scenario, windowMs * 2);
  }
  return readReport(readFileSync(report, 'utf8'));
}

/** Reads perf_analyzer's report, which has one row and times in microseconds. */
function readReport(text: string): Sample {
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
function address({ httpUrl, grpcAddress }: TritonProcess, { protocol }: Scenario): string {
  return protocol === 'HTTP' ? httpUrl.replace('http://', '') : grpcAddress;
}

const rates = (result: Measurement, name: string): number[] =>
  (result.samples.get(name) ?? []).map(({ requestsPerSecond }) => requestsPerSecond);

/** Forms of NVIDIA's Python client, the fastest first. */
function forms(result: Measurement): string[] {
  const names = [...result.samples.keys()].filter((name) => name !== INFER && name !== PERF_ANALYZER);
  return names.sort((a, b) => median(rates(result, b)) - median(rates(result, a)));
}

/** Ratio of our requests per second to those of another tool in the same round. */
const ratioTo = (result: Measurement, name: string): number => medianRatio(rates(result, INFER), rates(result, name));

/**
 * A row for each scenario: requests per second, and the ratios to the fastest form of tritonclient and to perf_analyzer.
 */
function measurementTable(results: readonly Measurement[]): string {
  const number = (value: number, digits = value < 100 ? 1 : 0): string =>
    Number.isNaN(value) ? '-' : value.toFixed(digits);
  const rows = results.map((result) => {
    const [best = ''] = forms(result);
    const of = (name: string, field: keyof Sample): string =>
      number(median((result.samples.get(name) ?? []).map((sample) => sample[field])));
    return [
      `${result.protocol}, ${result.elements === 16 ? '16 numbers' : '3 MB'}, ${result.concurrency} concurrent`,
      of(INFER, 'requestsPerSecond'),
      of(best, 'requestsPerSecond'),
      best.replace('tritonclient, ', ''),
      of(PERF_ANALYZER, 'requestsPerSecond'),
      number(ratioTo(result, best), 2),
      number(ratioTo(result, PERF_ANALYZER), 2),
    ];
  });
  return formatTable(
    [
      'requests a second',
      'ours',
      'tritonclient',
      'its form',
      'perf_analyzer',
      'ours/tritonclient',
      'ours/perf_analyzer',
    ],
    rows,
  );
}

/** A measurement in the format of the results file. */
function measurementJson(result: Measurement): object {
  const { protocol, elements, concurrency, samples } = result;
  const [best = ''] = forms(result);
  const ratio = { [best]: ratioTo(result, best), [PERF_ANALYZER]: ratioTo(result, PERF_ANALYZER) };
  return { protocol, elements, concurrency, ratio, samples: Object.fromEntries(samples) };
}
