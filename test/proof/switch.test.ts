import { describeUnless } from '../support/describe-unless';
import { whyNoTlc } from '../../tools/toolchain/tlc';
import { IS_LONG } from '../support/soak';
import { explore, guardsOf, type Model, type Value } from './model-checker';

const GUARDS = guardsOf('Switch');
const NOTHING = '-';
/** Contents of versions 1 and 2. */
type Versions = [string, string];
interface ReleasedModel {
  versions: Versions;
  labels?: string;
  /** Its interface; default: `f`. */
  face?: string;
}

/** Releases of one model, `m`. Version contents that start with X do not load. */
const ONE_MODEL = releases({
  a: { m: { versions: ['A', NOTHING], labels: 'x' } },
  secondVersion: { m: { versions: ['A', 'B'], labels: 'x' } },
  otherBytes: { m: { versions: ['C', NOTHING], labels: 'x' } },
  otherLabels: { m: { versions: ['A', NOTHING], labels: 'y' } },
  noLabels: { m: { versions: ['A', NOTHING] } },
  bad: { m: { versions: ['A', 'X'], labels: 'x' } },
  secondOnly: { m: { versions: [NOTHING, 'B'], labels: 'x' } },
});

/** Releases that remove the model `n`, and one that answers wrongly. */
const REMOVAL = {
  ...releases({
    a: { m: { versions: ['A', NOTHING] }, n: { versions: ['N', NOTHING] } },
    removed: { m: { versions: ['A', 'B'] }, n: { versions: [NOTHING, NOTHING] } },
    wrong: { m: { versions: ['A', 'W'] }, n: { versions: [NOTHING, NOTHING] } },
  }),
  Others: ['m', 'n'],
  Outside: true,
};

/** Releases of the ensemble `e` with its steps `s` and `t`. The last one uses version 1 of both again. */
const ENSEMBLE = {
  ...releases({
    a: { s: { versions: ['A', NOTHING] }, t: { versions: ['T', NOTHING] }, e: { versions: ['E1', NOTHING] } },
    newNumbers: { s: { versions: [NOTHING, 'B'] }, t: { versions: [NOTHING, 'U'] }, e: { versions: ['E2', NOTHING] } },
    bad: { s: { versions: [NOTHING, 'B'] }, t: { versions: [NOTHING, 'X'] }, e: { versions: ['E3', NOTHING] } },
    sameNumbers: { s: { versions: ['C', NOTHING] }, t: { versions: ['V', NOTHING] }, e: { versions: ['E4', NOTHING] } },
    newInterface: {
      s: { versions: [NOTHING, 'B'], face: 'g' },
      t: { versions: ['T', NOTHING] },
      e: { versions: ['E5', NOTHING] },
    },
  }),
  Steps: ['s', 't'],
  Others: ['e'],
  Ensemble: 'e',
  Pins: {
    a: { s: 1, t: 1 },
    newNumbers: { s: 2, t: 2 },
    bad: { s: 2, t: 2 },
    sameNumbers: { s: 1, t: 1 },
    newInterface: { s: 2, t: 1 },
  },
};

function releases(content: Record<string, Record<string, ReleasedModel>>) {
  const each = (value: (model: ReleasedModel) => Value): Record<string, Value> =>
    Object.fromEntries(
      Object.entries(content).map(([release, models]) => [
        release,
        Object.fromEntries(Object.entries(models).map(([name, model]) => [name, value(model)])),
      ]),
    );
  return {
    Steps: [] as Value,
    Others: ['m'] as Value,
    Outside: false as Value,
    Ensemble: NOTHING as Value,
    Pins: {} as Value,
    Contents: each(({ versions }) => versions),
    Labels: each(({ labels }) => labels ?? NOTHING),
    Faces: each(({ face }) => face ?? 'f'),
  };
}

interface Faults {
  crashes?: number;
  restarts?: number;
  clockGoesBack?: boolean;
  /** Releases that are asked for. */
  switches?: number;
}

function model(
  constants: Record<string, Value>,
  { crashes = 0, restarts = 0, clockGoesBack = false, switches = 3 }: Faults,
  invariants: string[],
  without: readonly string[] = [],
): Model {
  return {
    module: 'Switch',
    constants: {
      ...constants,
      Bad: new Set(['X']),
      Wrong: new Set(['W']),
      Switches: switches,
      MaxCrashes: crashes,
      MaxRestarts: restarts,
      ClockGoesBack: clockGoesBack,
      Guards: new Set(GUARDS.filter((guard) => !without.includes(guard))),
    },
    invariants,
  };
}

const ALL = ['ServesWhatItSays', 'NothingNeedless', 'EnsembleIsWhole', 'TrialsAreNotSeen', 'HomeIsServed'];

/** Without the guard, the formula is violated. */
const NEEDED: (Faults & { guard: string; violates: string; constants: Record<string, Value> })[] = [
  { guard: 'CloseOnClash', violates: 'EnsembleIsWhole', constants: ENSEMBLE },
  { guard: 'CloseOnInterface', violates: 'EnsembleIsWhole', constants: ENSEMBLE },
  { guard: 'EnsembleBeforeDrop', violates: 'EnsembleIsWhole', constants: ENSEMBLE },
  { guard: 'LaterThanAll', violates: 'ServesWhatItSays', constants: ONE_MODEL, clockGoesBack: true },
  { guard: 'LeaveFirst', violates: 'TrialsAreNotSeen', constants: REMOVAL },
  { guard: 'MarkUnsure', violates: 'ServesWhatItSays', constants: ONE_MODEL, crashes: 1 },
  { guard: 'OneAtATime', violates: 'EnsembleIsWhole', constants: ENSEMBLE },
  { guard: 'OnlyIfSure', violates: 'ServesWhatItSays', constants: ONE_MODEL, crashes: 1 },
  { guard: 'PutAside', violates: 'NothingNeedless', constants: ONE_MODEL },
  { guard: 'RemoveLast', violates: 'HomeIsServed', constants: REMOVAL },
  { guard: 'StepsServeBoth', violates: 'EnsembleIsWhole', constants: ENSEMBLE },
  { guard: 'TouchOnRemoval', violates: 'ServesWhatItSays', constants: ONE_MODEL },
];

const MOST_MS = 900_000;

describeUnless(whyNoTlc(), 'the specification of a switch in a pod', () => {
  test.each([
    {
      title: 'one model',
      constants: ONE_MODEL,
      crashes: 1,
      restarts: 1,
      clockGoesBack: true,
      switches: IS_LONG ? 3 : 2,
    },
    { title: 'a model that is removed', constants: REMOVAL, crashes: 1, restarts: 1 },
    { title: 'an ensemble and its steps', constants: ENSEMBLE, crashes: 1, restarts: 1, switches: 2 },
  ])(
    'holds: $title',
    async ({ constants, ...faults }) => {
      const { violated, states, output } = await explore(model(constants, faults, ALL));
      expect(violated === undefined ? '' : output).toBe('');
      process.stderr.write(`Switch.tla: ${states} distinct states\n`);
    },
    MOST_MS,
  );

  test.each(NEEDED)(
    'without $guard, $violates is violated',
    async ({ guard, violates, constants, ...faults }) => {
      expect((await explore(model(constants, faults, [violates], [guard]))).violated).toBe(violates);
    },
    MOST_MS,
  );

  test('every guard of the specification is removed once', () => {
    expect(NEEDED.map(({ guard }) => guard)).toEqual(GUARDS);
  });

  test('a switch can happen', async () => {
    expect((await explore(model(ONE_MODEL, {}, ['NeverSwitched']))).violated).toBe('NeverSwitched');
  });
});
