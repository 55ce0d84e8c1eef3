import { join } from 'node:path';
import { whyNoTlc } from '../../tools/toolchain/tlc';
import { describeUnless } from '../support/describe-unless';
import { MUTANTS, SEEN_MUTANTS } from '../support/simulation/mutants';
import { buildSimulation, runSimulation, type Mutant } from '../support/simulation/run-simulation';
import type { Observation } from '../support/simulation/trace-recorder';
import { IS_LONG, SOAK_SEED } from '../support/soak';
import { Scratch } from '../support/temp-dir';
import { explore } from './model-checker';
import { constantsOf, type Scenario } from './publish-scenario';

/**
 * Compares the code with its specification: each run of the simulation is recorded as it is seen from outside, and TLC
 * searches a run of Publish.tla that explains what was seen. docs/testing.md describes it.
 */

const scratch = new Scratch();
afterAll(() => scratch.clean());

const PUBLISHERS = ['publisher0', 'publisher1', 'publisher2'];
const PODS = ['pod0', 'pod1', 'pod2'];
/** More than happens in a run. */
const MANY = 1000;
/** TLC reads more at a time slowly. */
const AT_A_TIME = 250;
const RUNS = IS_LONG ? 1000 : 250;
/** Within this many runs, one shows each mutant. */
const MUTANT_RUNS = 2000;

const SCENARIO: Scenario = {
  commands: Object.fromEntries(PUBLISHERS.map((name) => [name, 'publish'])),
  // Objects are not seen: the checks of the simulation compare the bytes that pods serve.
  changes: Object.fromEntries(PUBLISHERS.map((name) => [name, []])),
  pods: PODS,
  restarts: MANY,
  stops: MANY,
  failures: MANY,
  crash: true,
  slowPods: true,
  knowsReady: false,
};

/** Of each trace, how many observations a run of the specification explains. */
async function explain(traces: readonly Observation[][]): Promise<number[]> {
  const { output } = await explore({
    module: 'Trace',
    modelValues: ['None'],
    behaviour: 'TraceSpec',
    view: 'TraceView',
    constants: { ...constantsOf(SCENARIO), Traces: traces },
  });
  const explained = traces.map(() => 0);
  for (const [, number, count] of output.matchAll(/<<"explained", (\d+), (\d+)>>/g)) {
    const index = Number(number) - 1;
    explained[index] = Math.max(explained[index] ?? 0, Number(count));
  }
  return explained;
}

/** @returns what was seen in the first run that is none of the specification, with a mark at what it does not explain */
async function findStranger(program: string, seed: number): Promise<string | undefined> {
  const { traces } = await runSimulation(program, { seed, runs: AT_A_TIME, shrink: false, trace: true });
  const explained = await explain(traces);
  for (const [index, trace] of traces.entries()) {
    const count = explained[index] ?? 0;
    if (count === trace.length) continue;
    return trace.map((step, i) => `${i === count ? '>>> ' : ''}${step.join(' ')}`).join('\n');
  }
  return undefined;
}

async function build(mutant?: Mutant): Promise<string> {
  const program = join(scratch.directory, 'simulation.cjs');
  await buildSimulation(program, mutant);
  return program;
}

/** What happens inside a pod, which Switch.tla specifies, is not seen from outside. */
const INSIDE = ['src/agent/model-repository.ts', 'src/agent/switch-models.ts'];

/** Needs an order of requests that no such run has. */
const RARE = 'a fence writes the same bytes';

const mutants = Object.entries({ ...MUTANTS, ...SEEN_MUTANTS })
  .filter(([name, { file }]) => !INSIDE.includes(file) && name !== RARE)
  .slice(0, IS_LONG ? undefined : 2);

describeUnless(whyNoTlc(), 'runs of publishers and agents', () => {
  test('are runs of the specification', async () => {
    const program = await build();
    for (let i = 0; i < RUNS / AT_A_TIME; i += 1) {
      expect((await findStranger(program, SOAK_SEED * 1000 + i)) ?? '').toBe('');
    }
  });

  test.each(mutants)(
    'are none if the code is wrong: %s',
    async (_, mutant) => {
      const program = await build(mutant);
      let stranger: string | undefined;
      for (let i = 0; i < MUTANT_RUNS / AT_A_TIME && stranger === undefined; i += 1) {
        stranger = await findStranger(program, SOAK_SEED * 1000 + i);
      }
      expect(stranger).toBeDefined();
    },
    900_000,
  );
});
