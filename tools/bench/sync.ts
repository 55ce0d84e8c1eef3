import { chooseRows } from './compare';
import { withSyncTools, type Context } from './sync-environment';
import { evaluate, measurementJson, measurementText, type EvaluatedMeasurement } from './sync-report';
import { SCENARIOS, type Scenario } from './sync-scenarios';

export interface SyncBenchOptions {
  /** Counted rounds of each scenario. */
  repetitions: number;
  /** Names of scenarios. Default: all. */
  rows: readonly string[] | undefined;
  /** Few and small files, for a test run. */
  quick: boolean;
}

/** Compares sync-models with common tools for the same task, on one local S3 server. */
export async function benchSync({ repetitions, rows, quick }: SyncBenchOptions): Promise<object> {
  const scenarios = chooseRows(SCENARIOS, rows);
  return withSyncTools(quick, async ({ progress, open, source, reduction }) => {
    const context = { environment: await open('environment'), source, repetitions, reduction };
    const measurements: EvaluatedMeasurement[] = [];
    for (const scenario of scenarios) {
      const measurement = await progress.run(scenario.title, (step) =>
        measureScenario(scenario, { ...context, onRun: (round, name) => step.update(`round ${round}, ${name}`) }),
      );
      process.stdout.write(`\n${measurementText(measurement)}\n\n`);
      measurements.push(measurement);
    }
    return { repetitions, quick, rows: measurements.map(measurementJson) };
  });
}

async function measureScenario(scenario: Scenario, context: Context): Promise<EvaluatedMeasurement> {
  const { name, goals, run } = scenario;
  const title = context.reduction === 1 ? scenario.title : `${scenario.title} (but 1 of ${context.reduction})`;
  const measurement = { name, title, ...(await run(context)) };
  return { ...measurement, goals: evaluate(goals, measurement) };
}
