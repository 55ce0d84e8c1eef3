import { describeUnless } from '../support/describe-unless';
import { whyNoTlc } from '../../tools/toolchain/tlc';
import { explore, guardsOf } from './model-checker';

const GUARDS = guardsOf('Keys');

interface Scenario {
  /** What each publisher publishes. A refused release has left x, and the former release has y. */
  bytes: Record<string, string>;
  prunes?: string[];
  /** How often a request may be applied. */
  copies?: number;
}

function verdict(formula: string, { bytes, prunes = ['q'], copies = 2 }: Scenario, without = '') {
  return explore({
    module: 'Keys',
    modelValues: ['None'],
    constants: {
      Publishers: new Set(Object.keys(bytes)),
      Prunes: new Set(prunes),
      Bytes: bytes,
      Copies: copies,
      Guards: new Set(GUARDS.filter((guard) => guard !== without)),
    },
    invariants: [formula],
  });
}

const LEFT: Scenario = { bytes: { p1: 'x', p2: 'x' } };
const FORMER: Scenario = { bytes: { p1: 'y', p2: 'x' } };
const TWO_PRUNES: Scenario = { bytes: { p1: 'y' }, prunes: ['q1', 'q2'] };

describeUnless(whyNoTlc(), 'the specification of the key of a file', () => {
  test.each<[string, Scenario]>([
    ['two publishers of the bytes that a refused release left, and a prune', LEFT],
    ['publishers of bytes of the former release and of other bytes, and a prune', FORMER],
    ['a publisher and two prunes, whose requests arrive late and twice', TWO_PRUNES],
  ])(
    'every retained release is complete: %s',
    async (_, scenario) => {
      const { violated, output, states } = await verdict('Complete', scenario);
      expect(violated === undefined ? '' : output).toBe('');
      process.stderr.write(`Keys.tla: ${states} distinct states\n`);
    },
    300_000,
  );

  const NEEDED: [string, Scenario][] = [
    ['IfMatch', FORMER],
    ['NameRetained', FORMER],
    ['PruneCommits', LEFT],
    ['SweepInKey', LEFT],
  ];
  test.each(NEEDED)(
    'without %s a retained release may lose its file',
    async (guard, scenario) => {
      expect((await verdict('Complete', scenario, guard)).violated).toBe('Complete');
    },
    300_000,
  );

  test('every guard of the specification is removed once', () => {
    expect(NEEDED.map(([guard]) => guard)).toEqual(GUARDS);
  });

  test.each<[string, string, Scenario]>([
    ['a prune deletes', 'NeverDeleted', LEFT],
    ['two releases name one object', 'NeverShared', LEFT],
    ['a publisher writes bytes again that a prune deletes', 'NeverNew', LEFT],
    ['a publisher and a prune succeed', 'NeverBothOk', { bytes: { p1: 'x' } }],
  ])(
    'can happen: %s',
    async (_, formula, scenario) => {
      expect((await verdict(formula, scenario)).violated).toBe(formula);
    },
    300_000,
  );
});
