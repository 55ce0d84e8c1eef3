import { describeUnless } from '../support/describe-unless';
import { whyNoTlc } from '../../tools/toolchain/tlc';
import { explore, guardsOf } from './model-checker';

const GUARDS = guardsOf('Keys');

interface Scenario {
  /** What each publisher publishes. At the place is an orphan with x. */
  bytes: Record<string, string>;
  prunes?: string[];
  /** How often a request that deletes an object may be applied. Default: once. */
  deletes?: number;
  suspends?: boolean;
}

function verdict(formulas: string[], { bytes, prunes = ['q'], deletes = 1, suspends = false }: Scenario, without = '') {
  return explore({
    module: 'Keys',
    modelValues: ['None'],
    constants: {
      Publishers: new Set(Object.keys(bytes)),
      Prunes: new Set(prunes),
      Bytes: bytes,
      MaxTime: 1,
      Deletes: deletes,
      MaySuspend: suspends,
      Guards: new Set(GUARDS.filter((guard) => guard !== without)),
    },
    invariants: formulas,
  });
}

const SAME: Scenario = { bytes: { p1: 'x', p2: 'x' } };
/** Both need the key by content. */
const KEPT: Scenario = { bytes: { p1: 'y', p2: 'y' } };
const OTHER: Scenario = { bytes: { p1: 'x', p2: 'y' } };
/** The first prune's request arrives after the second prune. */
const TWO_PRUNES: Scenario = { bytes: { p1: 'y' }, prunes: ['q1', 'q2'] };
const DOUBLED: Scenario = { bytes: { p1: 'x' }, deletes: 2, suspends: true };

describeUnless(whyNoTlc(), 'the specification of the keys of a file', () => {
  test.each<[string, string[], Scenario]>([
    ['two publishers of the same bytes and a prune', ['Readable', 'Visible'], SAME],
    ['two publishers of bytes that the place does not have and a prune', ['Readable', 'Visible'], KEPT],
    ['two publishers of different bytes and a prune', ['Readable', 'Visible'], OTHER],
    ['a late delete of another prune', ['Readable', 'Visible'], TWO_PRUNES],
    ['deletes that are applied twice, and suspended versioning', ['Readable'], DOUBLED],
  ])(
    'holds: %s',
    async (_, formulas, scenario) => {
      const { violated, output, states } = await verdict(formulas, scenario);
      expect(violated === undefined ? '' : output).toBe('');
      process.stderr.write(`Keys.tla: ${states} distinct states\n`);
    },
    300_000,
  );

  const NEEDED: [string, string, Scenario][] = [
    ['Checksum', 'Readable', OTHER],
    ['ETag', 'Visible', TWO_PRUNES],
    ['Fresh', 'Visible', SAME],
    ['IfAbsent', 'Visible', OTHER],
    ['IfMatch', 'Visible', OTHER],
    ['PruneCommits', 'Visible', SAME],
    ['TimeInKey', 'Visible', KEPT],
    ['VersionId', 'Readable', DOUBLED],
  ];
  test.each(NEEDED)(
    'without %s, %s is violated',
    async (guard, formula, scenario) => {
      expect((await verdict([formula], scenario, guard)).violated).toBe(formula);
    },
    300_000,
  );

  test('every guard of the specification is removed once', () => {
    expect(NEEDED.map(([guard]) => guard)).toEqual(GUARDS);
  });

  test.each<[string, string, Scenario]>([
    ['a release names the place', 'NeverAtPlace', OTHER],
    ['a release names a key by content', 'NeverKept', OTHER],
    ['a prune deletes', 'NeverDeleted', SAME],
    ['a publisher and a prune succeed', 'NeverBothOk', { bytes: { p1: 'x' } }],
    // Agents read the file by its version id. `status` reports it.
    ['a delete that is applied twice hides a file that was uploaded again', 'Visible', DOUBLED],
  ])(
    'can happen: %s',
    async (_, formula, scenario) => {
      expect((await verdict([formula], scenario)).violated).toBe(formula);
    },
    300_000,
  );
});
