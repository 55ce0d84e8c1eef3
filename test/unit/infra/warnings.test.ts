import { readSettings } from '../../../infra/settings';
import { getWarnings } from '../../../infra/warnings';
import { getConfig, LOCAL_S3 } from '../../support/registered-stack';

const of = (values: Record<string, unknown>, stack = 'staging'): string[] =>
  getWarnings(readSettings(getConfig(stack, values)));

const SPOT = { name: 'a10g', instanceTypes: ['g5.xlarge'], maximumGpus: 8 };
const GROUP = { ...SPOT, capacityTypes: ['on-demand'], nodes: 2 };
const OWN = { publicAccessCidrs: ['52.9.8.0/24'], publisherSubjects: ['repo:acme@1/serving@2:environment:staging'] };

const EXAMPLE = (key: string): string =>
  `${key} names -your-organisation-, which is an example value that no job has: set ${key} to the subject of a job of your repository (docs/ci.md)`;

test.each<[Record<string, unknown>, ...string[]]>([
  [OWN],
  [{ publicAccessCidrs: ['203.0.113.0/24'] }, EXAMPLE('publisherSubjects')],
  [{ ...OWN, prunerSubjects: ['repo:-your-organisation-/serving:environment:prune'] }, EXAMPLE('prunerSubjects')],
  // Its room, quota and price cannot be checked.
  [
    {
      ...OWN,
      gpuNodePools: [{ ...SPOT, instanceTypes: ['g7e.2xlarge', 'g5.2xlrge'], maximumGpus: 1 }],
      replicas: 9,
      gpusPerPod: 2,
    },
    'pool a10g: this package does not know g7e.2xlarge, so it checks neither whether a replica fits, nor quota and price: did you mean "g6e.2xlarge"?',
    expect.stringMatching(/^pool a10g: this package does not know g5.2xlrge, .*: did you mean "g5.2xlarge"\?$/),
  ],
  // An existing network may contain the machine that runs pulumi.
  [{ ...OWN, privateSubnetIds: ['subnet-0a', 'subnet-0b'], publicAccessCidrs: [] }],
])('getWarnings of staging with %j', (values, ...said) => {
  expect(of(values)).toEqual(said);
});

test.each(['staging', 'prod'])(
  'getWarnings reports that the API of an unchanged %s is private, and how to open it',
  (stack) => {
    expect(of({}, stack)).toEqual([
      EXAMPLE('publisherSubjects'),
      expect.stringMatching(
        /^publicAccessCidrs is empty, so the Kubernetes API can be reached from the new VPC only.* pulumi config set --path "publicAccessCidrs\[0\]"/,
      ),
    ]);
  },
);

describe('getWarnings compares subjects of GitHub with the forms that repositories have', () => {
  const OLD = 'repo:acme/serving:environment:staging';
  const NEW = 'repo:acme@1/serving@2:environment:staging';

  test.each<[string, Record<string, unknown>, string[]]>([
    ['with ids', { publisherSubjects: [NEW] }, []],
    ['in both forms', { publisherSubjects: [OLD, NEW] }, []],
    ['without ids', { publisherSubjects: [OLD] }, [OLD]],
    ['with the id of the owner only', { publisherSubjects: ['repo:acme@1/a'] }, ['repo:acme@1/a']],
    ['in the form of another branch', { publisherSubjects: [OLD, 'repo:acme@1/serving@2:ref:refs/heads/main'] }, [OLD]],
    ['of a form that the repository chose', { publisherSubjects: ['repository_id:123'] }, []],
    ['without an environment', { publisherSubjects: ['repo:acme/serving'] }, ['repo:acme/serving']],
    ['beside another one with ids', { publisherSubjects: [NEW, `${OLD}-2`] }, [`${OLD}-2`]],
    [
      'of the pruner',
      { publisherSubjects: [NEW], prunerSubjects: [OLD.replace('staging', 'prune')] },
      [OLD.replace('staging', 'prune')],
    ],
    ['of GitLab', { publisherIssuer: 'https://gitlab.com', publisherSubjects: [OLD] }, []],
  ])('%s', (_, values, old) => {
    const key = 'prunerSubjects' in values ? 'prunerSubjects' : 'publisherSubjects';
    const said = old.map(
      (subject) =>
        `${key} has ${subject} without the ids of owner and repository. AWS rejects the tokens of a repository that was created, ` +
        'renamed or transferred since 2026-07-15, because their subjects are repo:OWNER@ID/NAME@ID:...: ' +
        '"gh api /repos/OWNER/NAME/actions/oidc/customization/sub" shows the form of the tokens; ' +
        `set ${key} to it, or list both forms`,
    );
    expect(of({ ...OWN, ...values })).toEqual(said);
  });

  test('also for an existing cluster', () => {
    const oidcProviderArn = 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/X';
    const values = { existingCluster: { context: 'kind', oidcProviderArn }, publisherSubjects: [OLD] };
    const settings = readSettings({ ...getConfig('local', values), region: 'us-east-1' });
    expect(getWarnings(settings)).toEqual([expect.stringContaining(`${OLD} without the ids`)]);
  });
});

test.each<[string, Record<string, unknown>, boolean]>([
  ['a pool that prefers spot', {}, true],
  [
    'an on-demand pool beside it',
    { gpuNodePools: [SPOT, { ...SPOT, name: 'b', capacityTypes: ['on-demand'] }] },
    false,
  ],
  ['a managed group of spot nodes', { gpuNodePools: [{ ...GROUP, capacityTypes: ['spot'] }] }, true],
  ['a managed group of on-demand nodes', { gpuNodePools: [GROUP] }, false],
  ['no protection', { protect: false }, false],
  ['replicas on CPUs', { gpusPerPod: 0 }, false],
])('getWarnings reports a protected stack on spot nodes only: %s', (_, values, isReported) => {
  const said = /^protect is true, but every GPU node pool prefers spot .* may need 18 minutes on a new node/;
  expect(of({ ...OWN, protect: true, gpuNodePools: [SPOT], ...values })).toEqual(
    isReported ? [expect.stringMatching(said)] : [],
  );
});

const MIXED = [
  { name: 'nodes', instanceTypes: ['g5.xlarge'], maximumGpus: 1 },
  { name: 'group', instanceTypes: ['g5.12xlarge'], capacityTypes: ['spot'], nodes: 1 },
];
/** A replica with three GPUs leaves one of each node unused. */
const OF_FOUR = [{ name: 'four', instanceTypes: ['g5.12xlarge'], maximumGpus: 6 }];

test.each<[Record<string, unknown>, number?, string?]>([
  [{ replicas: 3 }],
  [{ replicas: 4 }, 3],
  [{ replicas: 4, gpusPerPod: 0 }],
  [{ replicas: 4, gpuNodePools: [] }],
  [{ autoscaling: { minReplicas: 1, maxReplicas: 4 } }, 3],
  [{ replicas: 4, gpusPerPod: 3, gpuNodePools: OF_FOUR }, 1],
  [{ replicas: 6, gpuNodePools: MIXED }, 5, 'maximumGpus and nodes'],
])('getWarnings of the room for replicas with %j: %s', (...[values, room, limits = 'maximumGpus']) => {
  const [key, count] = 'replicas' in values ? ['replicas', values['replicas']] : ['autoscaling.maxReplicas', 4];
  const said = `${key} is ${String(count)}, but the GPU node pools have room for ${room} at most (${limits}), so the other replicas would stay pending. Raise `;
  expect(of({ ...OWN, ...values })).toEqual(room === undefined ? [] : [expect.stringContaining(said)]);
});

test('getWarnings reports nothing about an existing cluster', () => {
  expect(of({ s3: LOCAL_S3 }, 'local')).toEqual([]);
});
