import fc from 'fast-check';
import { installClock } from './clock';
import { describeScenario, scenarios, type Scenario } from './scenario';
import type { Observation } from './trace-recorder';
import { simulate } from './world';

/** What this program is asked for, as JSON on its command line. */
export interface SimulationRequest {
  seed: number;
  runs: number;
  /** Whether a failure is reduced to few events. */
  shrink: boolean;
  /** Runs this scenario only. */
  scenario?: Scenario;
  /** Whether each run is recorded. */
  trace?: boolean;
}

/** What it prints, as JSON. */
export interface SimulationReport {
  runs: number;
  /** Of the processor. */
  seconds: number;
  events: number;
  /** Of all schedules. */
  hash: number;
  counts: Record<string, number>;
  /** Of each run, if it was asked for. */
  traces: Observation[][];
  failure?: { wrong: string[]; scenario: Scenario; lines: string[]; log: string[] };
}

async function main({ seed, runs, shrink, scenario, trace = false }: SimulationRequest): Promise<SimulationReport> {
  const report: SimulationReport = { runs: 0, seconds: 0, events: 0, hash: 0, counts: {}, traces: [] };
  const run = async (one: Scenario): Promise<string[]> => {
    const outcome = await simulate(one, { trace });
    if (trace) report.traces.push(outcome.trace);
    report.runs += 1;
    report.events += outcome.events;
    report.hash = (Math.imul(report.hash, 31) + outcome.hash) >>> 0;
    for (const { code } of outcome.runs) report.counts[`exit ${code}`] = (report.counts[`exit ${code}`] ?? 0) + 1;
    // A recorded run is judged by the specification.
    return trace ? [] : outcome.wrong;
  };
  const property = fc.asyncProperty(scenarios, async (one) => (await run(one)).length === 0);
  const failed =
    scenario ?? (await fc.check(property, { seed, numRuns: runs, endOnFailure: !shrink })).counterexample?.[0];
  if (failed !== undefined) {
    const { wrong, log } = await simulate(failed, { log: true });
    report.failure = { wrong, scenario: failed, lines: describeScenario(failed), log };
  }
  const { user, system } = process.cpuUsage();
  report.seconds = (user + system) / 1e6;
  return report;
}

installClock();
// An error that no code waits for is an error of the product, unless its program has died.
process.on('unhandledRejection', (error) => {
  if ((error as Error).name === 'DiedError') return;
  process.stderr.write(`${(error as Error).stack}\n`);
  process.exit(1);
});
main(JSON.parse(process.argv[2] ?? '{}') as SimulationRequest).then(
  (report) => process.stdout.write(`${JSON.stringify(report)}\n`),
  (error: unknown) => {
    process.stderr.write(`${(error as Error).stack}\n`);
    process.exitCode = 1;
  },
);
