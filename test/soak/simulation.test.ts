import { join } from 'node:path';
import { buildSimulation, runSimulation } from '../support/simulation/run-simulation';
import type { SimulationReport } from '../support/simulation/main';
import { MUTANTS, OTHER_MUTANTS } from '../support/simulation/mutants';
import { IS_LONG, patience, repetitions, report, SOAK_SEED } from '../support/soak';
import { Scratch } from '../support/temp-dir';

/**
 * The code of publishers and agents in virtual time, in one process, with delays, lost and late requests, crashes, and
 * clocks that jump, all from a seed. docs/testing.md describes it.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** 100,000 with the factor of `npm run test:soak`. */
const SCHEDULES = repetitions(IS_LONG ? 4000 : 2000);
const AT_A_TIME = IS_LONG ? 2 : 1;
/** Within this many schedules the simulation finds each mutant. */
const MUTANT_SCHEDULES = 5000;

const program = join(scratch.directory, 'simulation.cjs');
beforeAll(() => buildSimulation(program));

/** The failure as a short list of events, for the message of a test. */
const describe = ({ failure }: SimulationReport): string[] =>
  failure === undefined ? [] : [...failure.wrong, ...failure.lines, JSON.stringify(failure.scenario)];

test('the same seed gives the same schedules', async () => {
  const request = { seed: SOAK_SEED, runs: 30, shrink: false };
  const both = [await runSimulation(program, request), await runSimulation(program, request)];
  expect(both.map(({ hash, events }) => ({ hash, events }))[0]).toEqual({
    hash: both[1]?.hash,
    events: both[1]?.events,
  });
  expect(both.map(describe)).toEqual([[], []]);
});

test(
  'what pods serve and what publishers report is true in every schedule',
  async () => {
    const runs = Math.ceil(SCHEDULES / AT_A_TIME);
    const reports = await Promise.all(
      Array.from({ length: AT_A_TIME }, (_, i) =>
        runSimulation(program, { seed: SOAK_SEED * 1000 + i, runs, shrink: true }),
      ),
    );
    const counts: Record<string, number> = { schedules: 0, events: 0, 'processor seconds': 0 };
    for (const one of reports) {
      const more = {
        schedules: one.runs,
        events: one.events,
        'processor seconds': Math.round(one.seconds),
        ...one.counts,
      };
      for (const [name, count] of Object.entries(more)) counts[name] = (counts[name] ?? 0) + count;
    }
    report('simulated publishes', counts);
    expect(reports.flatMap(describe)).toEqual([]);
    // Otherwise faults of the simulation itself, which fail every publish, would pass.
    expect(counts['exit 0']).toBeGreaterThan(SCHEDULES / 10);
  },
  patience(4000, 60),
);

const mutants = [
  ...Object.entries(MUTANTS).slice(0, IS_LONG ? undefined : 3),
  ...(process.env['SIMULATION_MUTANTS'] === 'all' ? Object.entries(OTHER_MUTANTS) : []),
];

test.each(mutants)(
  'the simulation finds a fault: %s',
  async (_, mutant) => {
    const changed = join(scratch.directory, 'mutant.cjs');
    await buildSimulation(changed, mutant);
    const { failure } = await runSimulation(changed, { seed: SOAK_SEED, runs: MUTANT_SCHEDULES, shrink: false });
    expect(failure).toBeDefined();
  },
  900_000,
);
