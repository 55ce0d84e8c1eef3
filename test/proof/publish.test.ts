import { describeUnless } from '../support/describe-unless';
import { whyNoTlc } from '../../tools/toolchain/tlc';
import { explore, type Model } from './model-checker';
import { IS_LONG } from '../support/soak';
import { constantsOf, GUARDS, type Scenario } from './publish-scenario';

/** What a formula describes: a step or the end of a run; default: a state. */
type Kind = 'step' | 'end';

type Formulas = Pick<Model, 'behaviour' | 'invariants' | 'properties'>;

function formulas(names: string[], kind: Kind | undefined): Formulas {
  if (kind === undefined) return { invariants: names };
  return { properties: names, ...(kind === 'end' && { behaviour: 'LiveSpec' }) };
}

const model = (scenario: Scenario, checked: Formulas): Model => ({
  module: 'Publish',
  modelValues: ['None'],
  constants: constantsOf(scenario),
  ...checked,
  // Formulas about steps and about the end need whole states.
  ...(checked.properties === undefined ? { view: 'View' } : {}),
});

const PUBLISH = { p1: 'publish' } as const;
const BAD_EVERYWHERE = {
  commands: PUBLISH,
  pods: ['a', 'b'],
  bad: ['a', 'b'].map((pod): [string, string] => ['p1', pod]),
};
const TWO = { p1: 'publish', p2: 'publish' } as const;
const PRUNE = { p1: 'publish', p2: 'prune' } as const;
/** The bytes that p1 publishes are those of the former release, which a prune may delete. */
const REUSE = { commands: PRUNE, numbers: { p1: 0, p2: 3 }, bytes: { p1: 0, p2: 3 } } as const;
const SAME_NUMBER = { commands: TWO, numbers: { p1: 2, p2: 2 }, lateUploads: true } as const;

/** A refused release has left the bytes that p1 publishes. */
const LEFT: Scenario = { commands: PRUNE, bytes: { p1: 9, p2: 3 }, pods: [] };
/** A third publisher publishes what the first one, which may have failed, has uploaded. */
const AGAIN: Scenario = {
  commands: { p1: 'publish', p2: 'prune', p3: 'publish' },
  bytes: { p1: 9, p2: 3, p3: 9 },
  pods: [],
};

/** No pod can load the release that head.json names. */
const NO_POD_SERVES = { commands: PUBLISH, up: [], bad: [['r1', 'a']] as [string, string][] };
/** A pod starts during a prune. */
const START = { ...REUSE, pods: ['a', 'b'], up: ['a'], giveUp: false };
/** S3 fails and stays away, and a pod restarts. */
const RESTART = {
  commands: PUBLISH,
  pods: ['a', 'b'],
  outages: 1,
  outagesEnd: false,
  restarts: 1,
  giveUp: false,
};

const SAFE = [
  'TypeOK',
  'HeadIsComplete',
  'RetainedIsComplete',
  'NumbersAreStable',
  'FailedMeansNot',
  'FailedMeansHome',
  'OkMeansHead',
  'NoStepBack',
  'OneOfTwoGoesOn',
];

/** The formulas hold. `long`: takes minutes, so that only the long form has it. */
const HOLDS: (Scenario & { title: string; formulas?: string[]; kind?: Kind; long?: true })[] = [
  { title: 'two publishers on two pods', commands: TWO, pods: ['a', 'b'], long: true },
  { title: 'two publishers, every fault of a pod', commands: TWO, restarts: 1, outages: 1, crash: true, long: true },
  { title: 'publish and prune', commands: PRUNE, stops: 1, crash: true, lateUploads: true, copies: 2, long: true },
  { title: 'rollback and prune', commands: { p1: 'rollback', p2: 'prune' }, stops: 1, crash: true, copies: 2 },
  { title: 'publish and rollback', commands: { p1: 'publish', p2: 'rollback' }, restarts: 1, long: true },
  {
    title: 'a publish reuses bytes that a prune may delete',
    ...REUSE,
    stops: 1,
    crash: true,
    lateUploads: true,
    long: true,
  },
  {
    title: 'a refused release left the bytes of two publishers, and a prune',
    ...AGAIN,
    giveUp: false,
    copies: 2,
    long: true,
  },
  {
    title: 'a publish and two prunes, with late and doubled requests',
    long: true,
    commands: { p1: 'publish', p2: 'prune', p3: 'prune' },
    bytes: { p1: 0, p2: 3, p3: 4 },
    pods: [],
    lateUploads: true,
    copies: 2,
  },
  { title: 'the same version number', ...SAME_NUMBER, formulas: [...SAFE, 'NumbersAreNotBurnt'] },
  {
    title: 'a pod joins',
    long: true,
    commands: PUBLISH,
    pods: ['a', 'b'],
    up: ['a'],
    restarts: 1,
    stops: 1,
    crash: true,
    copies: 2,
  },
  { title: 'two publishers and a slow pod', commands: TWO, slowPods: true, restarts: 1, failures: 1, long: true },
  {
    title: 'a publish on two slow pods',
    long: true,
    commands: PUBLISH,
    pods: ['a', 'b'],
    slowPods: true,
    restarts: 1,
    crash: true,
  },
  {
    title: 'it loads on one pod only',
    commands: PUBLISH,
    pods: ['a', 'b'],
    bad: [['p1', 'b']],
    restarts: 1,
    crash: true,
  },
  {
    title: 'two pods at a time after the first',
    long: true,
    commands: PUBLISH,
    pods: ['a', 'b', 'c'],
    bad: [['p1', 'c']],
    restarts: 1,
  },
  {
    title: 'no pod serves head, and one pod does not load the release either',
    ...NO_POD_SERVES,
    pods: ['a', 'b'],
    bad: ['a', 'b'].map((pod): [string, string] => ['r1', pod]).concat([['p1', 'b']]),
    restarts: 1,
    crash: true,
  },
  { title: 'only the canary is asked for a bad release', ...BAD_EVERYWHERE, formulas: ['OnlyTheCanaryIsAsked'] },
  {
    title: 'two models, of which one publisher changes one',
    long: true,
    commands: TWO,
    models: ['m', 'n'],
    changes: { p1: ['m'], p2: ['m', 'n'] },
    lateUploads: true,
  },
  {
    title: 'two models and a prune',
    long: true,
    commands: PRUNE,
    models: ['m', 'n'],
    changes: { p1: ['m'], p2: [] },
    lateUploads: true,
  },
  {
    title: 'each commit follows its trials',
    commands: TWO,
    kind: 'step',
    formulas: ['CommitAfterTrials', 'CommitAfterATrial', 'CommitOnBase', 'TrialsAreNotTaken'],
  },
  {
    title: 'each commit follows its trials while a pod joins',
    commands: PUBLISH,
    pods: ['a', 'b'],
    up: ['a'],
    restarts: 1,
    kind: 'step',
    formulas: ['CommitAfterTrials', 'CommitAfterATrial', 'CommitAfterBake', 'OthersAfterBake', 'CommitOnBase'],
  },
  {
    title: 'pods follow head in the end',
    commands: PUBLISH,
    outages: 1,
    restarts: 1,
    crash: true,
    kind: 'end',
    formulas: ['PodsFollowHead'],
  },
  { title: 'a pod that starts during a prune comes up', ...START, kind: 'end', formulas: ['PodsStart'], long: true },
  {
    title: 'trials end, also without S3',
    commands: PUBLISH,
    outages: 1,
    outagesEnd: false,
    crash: true,
    kind: 'end',
    formulas: ['TrialsEnd'],
  },
  { title: 'pods that restart without S3 come up', ...RESTART, kind: 'end', formulas: ['PodsComeUp'] },
];

const NO_S3 = { outages: 1, outagesEnd: false, crash: true } as const;

/** Without the guards, the formula is violated. */
const NEEDED: (Scenario & { without: string[]; violates: string; kind?: Kind })[] = [
  { without: ['Acknowledge'], violates: 'NoStepBack', commands: PUBLISH },
  { without: ['AllPods'], violates: 'CommitAfterTrials', kind: 'step', commands: PUBLISH, pods: ['a', 'b'] },
  { without: ['BakeFirst'], violates: 'CommitAfterBake', kind: 'step', commands: PUBLISH },
  { without: ['Canary'], violates: 'OthersAfterBake', kind: 'step', commands: PUBLISH, pods: ['a', 'b'] },
  { without: ['BaseAtStart'], violates: 'CommitOnBase', kind: 'step', commands: TWO },
  { without: ['BaseCheck'], violates: 'NoStepBack', commands: TWO, restarts: 1 },
  { without: ['Canary'], violates: 'OnlyTheCanaryIsAsked', ...BAD_EVERYWHERE },
  { without: ['CheckTrials'], violates: 'CommitAfterTrials', kind: 'step', commands: PUBLISH },
  { without: ['Conflict'], violates: 'NumbersAreStable', commands: PUBLISH, numbers: { p1: 1 }, bytes: { p1: 2 } },
  { without: ['Expiry'], violates: 'TrialsEnd', kind: 'end', commands: PUBLISH, crash: true },
  { without: ['Fence'], violates: 'FailedMeansNot', commands: PUBLISH },
  { without: ['Generation'], violates: 'FailedMeansNot', commands: TWO },
  { without: ['History'], violates: 'FailedMeansNot', commands: TWO },
  { without: ['HomeFirst'], violates: 'PodsComeUp', kind: 'end', ...RESTART },
  { without: ['HomeNothing'], violates: 'TrialsEnd', kind: 'end', ...NO_POD_SERVES, crash: true },
  { without: ['IfMatch'], violates: 'FailedMeansNot', commands: TWO },
  { without: ['IfMatch'], violates: 'CommitOnBase', kind: 'step', commands: TWO },
  { without: ['KeepHead', 'HomeFirst'], violates: 'TrialsEnd', kind: 'end', commands: PUBLISH, ...NO_S3 },
  { without: ['KeepHomeFiles'], violates: 'TrialsEnd', kind: 'end', commands: PUBLISH, ...NO_S3 },
  { without: ['NameRetained'], violates: 'HeadIsComplete', ...AGAIN },
  { without: ['NewerHead'], violates: 'NoStepBack', commands: TWO, slowPods: true },
  { without: ['NewId'], violates: 'OkMeansHead', commands: { p1: 'rollback', p2: 'rollback' } },
  { without: ['OneTrial'], violates: 'TrialsAreNotTaken', kind: 'step', commands: TWO },
  { without: ['Order'], violates: 'OneOfTwoGoesOn', commands: TWO, pods: ['a', 'b'] },
  { without: ['PruneCommits'], violates: 'HeadIsComplete', commands: PRUNE },
  { without: ['ReadAfter412'], violates: 'FailedMeansNot', commands: PUBLISH, copies: 2 },
  { without: ['ReadBack'], violates: 'FailedMeansNot', commands: PUBLISH },
  { without: ['RenewOnly'], violates: 'FailedMeansHome', commands: PUBLISH },
  { without: ['Reread'], violates: 'PodsStart', kind: 'end', ...START },
  { without: ['StateTag'], violates: 'FailedMeansHome', commands: PUBLISH },
  { without: ['SweepInKey'], violates: 'HeadIsComplete', ...LEFT },
  { without: ['WaitForPods'], violates: 'CommitAfterATrial', kind: 'step', commands: PUBLISH, restarts: 1 },
];

/** If one of these held, the other formulas would say nothing. */
const POSSIBLE: (Scenario & { title: string; formula: string })[] = [
  { title: 'two publishers succeed', formula: 'NeverAllOk', commands: TWO },
  { title: 'a publish and a rollback succeed', formula: 'NeverAllOk', commands: { p1: 'publish', p2: 'rollback' } },
  { title: 'a publish and a prune succeed', formula: 'NeverAllOk', commands: PRUNE },
  { title: 'a publish asks a pod that joins', formula: 'NeverAllOk', commands: PUBLISH, pods: ['a', 'b'], up: ['a'] },
  { title: 'a publish succeeds on a pod that cannot load head', formula: 'NeverAllOk', ...NO_POD_SERVES },
  { title: 'a prune deletes', formula: 'NeverDeleted', commands: PRUNE },
  { title: 'two releases name one object', formula: 'NeverShared', ...AGAIN },
  { title: 'a publisher writes bytes again that a prune deletes', formula: 'NeverNew', ...LEFT },
  { title: 'a commit is fenced', formula: 'NeverFenced', commands: PUBLISH },
  { title: 'a publish is incomplete', formula: 'NeverPartial', commands: PUBLISH },
];

const MOST_MS = 900_000;

describeUnless(whyNoTlc(), 'the specification of a publish', () => {
  let explored = 0;

  test.each(HOLDS.filter(({ long }) => long !== true || IS_LONG))(
    'holds: $title',
    async ({ formulas: names = SAFE, kind, ...scenario }) => {
      const { violated, states, output } = await explore(model(scenario, formulas(names, kind)));
      expect(violated === undefined ? '' : output).toBe('');
      explored += states;
    },
    MOST_MS,
  );

  test('the runs above have many distinct states', () => {
    process.stderr.write(`Publish.tla: ${explored} distinct states\n`);
    expect(explored).toBeGreaterThan(IS_LONG ? 3_000_000 : 100_000);
  });

  test.each(NEEDED)(
    'without $without, $violates is violated',
    async ({ violates, kind, ...scenario }) => {
      expect((await explore(model(scenario, formulas([violates], kind)))).violated).toBe(violates);
    },
    MOST_MS,
  );

  test('every guard of the specification is removed once', () => {
    expect([...new Set(NEEDED.flatMap(({ without }) => without))].sort()).toEqual(GUARDS);
  });

  test.each(POSSIBLE)(
    'can happen: $title',
    async ({ formula, ...scenario }) => {
      expect((await explore(model(scenario, formulas([formula], undefined)))).violated).toBe(formula);
    },
    MOST_MS,
  );
});
