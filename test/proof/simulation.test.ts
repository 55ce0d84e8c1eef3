import { join } from 'node:path';
import { buildSimulation, runSimulation } from '../support/simulation/run-simulation';
import type { SimulationReport } from '../support/simulation/main';
import { MUTANTS } from '../support/simulation/mutants';
import type { Scenario } from '../support/simulation/scenario';
import { IS_LONG, patience, repetitions, report, SOAK_SEED } from '../support/soak';
import { Scratch } from '../support/temp-dir';

/**
 * The code of publishers and agents in virtual time, in one process, with delays, lost and late requests, crashes, and
 * clocks that jump, all from a seed. docs/testing.md describes it.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** 100,000 with the factor of `npm run test:long`. */
const SCHEDULES = repetitions(IS_LONG ? 4000 : 500);
const AT_A_TIME = IS_LONG ? 2 : 1;
/** Within this many schedules the simulation finds each mutant. */
const MUTANT_SCHEDULES = IS_LONG ? 10_000 : 5000;

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

/** Scenarios that showed a fault of the product once, which is fixed. */
const FIXED: Readonly<Record<string, Scenario>> = {
  // A pod that has to follow head waited for an hour, because its time to wait was a time of the wall clock.
  'a clock is set back while a pod waits to follow head': {
    seed: 453513197,
    pods: 1,
    publishes: [
      {
        at: 0,
        a: { version: 1, count: 1, variant: 0, labels: 'none', isBad: false },
        b: { version: 1, count: 1, variant: 0, labels: 'y', isBad: false },
      },
    ],
    happenings: [{ kind: 'set clock', pod: 0, at: 4000, ms: -3_600_000 }],
    faults: [{ client: 'pod-0', request: 'get head', nth: 1, effect: 'kills its sender', ms: 100 }],
    hours: false,
  },
};

test.each(Object.entries(FIXED))('a scenario of a former fault passes: %s', async (_, scenario) => {
  const { failure } = await runSimulation(program, { seed: scenario.seed, runs: 1, shrink: false, scenario });
  // Of a given scenario, the log is in the report also if nothing was wrong.
  expect(failure?.wrong).toEqual([]);
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

test.each(Object.entries(MUTANTS).slice(0, IS_LONG ? undefined : 2))(
  'the simulation finds a fault: %s',
  async (_, mutant) => {
    const changed = join(scratch.directory, 'mutant.cjs');
    await buildSimulation(changed, mutant);
    const { failure } = await runSimulation(changed, { seed: SOAK_SEED, runs: MUTANT_SCHEDULES, shrink: false });
    expect(failure).toBeDefined();
  },
  900_000,
);
