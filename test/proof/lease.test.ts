import { describeUnless } from '../support/describe-unless';
import { whyNoTlc } from '../../tools/toolchain/tlc';
import { explore, guardsOf } from './model-checker';

const GUARDS = guardsOf('Lease');

/** Times in steps of 10 s. */
const TIMES = { Ttl: 6, Margin: 2, Deadline: 1, Drift: 1, Horizon: 12 };

function verdict(formula: string, without?: string): Promise<string | undefined> {
  const guards = new Set(GUARDS.filter((guard) => guard !== without));
  const model = { module: 'Lease', constants: { ...TIMES, Guards: guards }, invariants: [formula] };
  return explore(model).then(({ violated }) => violated);
}

describeUnless(whyNoTlc(), 'the specification of the deadlines of a commit', () => {
  test('a commit that is answered in time was applied while the pod served the release', async () => {
    expect(await verdict('CommittedWhileServed')).toBeUndefined();
  });

  test.each(GUARDS)('without %s, a commit that is answered in time may follow the end of the trial', async (guard) => {
    expect(await verdict('CommittedWhileServed', guard)).toBe('CommittedWhileServed');
  });

  test('a commit can succeed', async () => {
    expect(await verdict('NeverDone')).toBe('NeverDone');
  });
});
