import { readSettings } from '../../../infra/settings';
import { getWarnings } from '../../../infra/warnings';
import { getConfig, LOCAL_S3 } from '../../support/registered-stack';

const of = (values: Record<string, unknown>, stack = 'staging'): string[] =>
  getWarnings(readSettings(getConfig(stack, values)));

const SPOT = { name: 'a10g', instanceTypes: ['g5.xlarge'], maximumGpus: 8 };
const GROUP = { ...SPOT, capacityTypes: ['on-demand'], nodes: 2 };
const OWN = { publicAccessCidrs: ['52.9.8.0/24'], publisherSubjects: ['repo:acme@1/serving@2:environment:staging'] };

test('getWarnings reports nothing for a stack without example values', () => {
  expect(of(OWN)).toEqual([]);
});

test('getWarnings reports instance types that are not known, whose room, quota and price it cannot check', () => {
  const pool = { ...SPOT, instanceTypes: ['g7e.2xlarge', 'g5.2xlrge'], maximumGpus: 1 };
  expect(of({ ...OWN, gpuNodePools: [pool], replicas: 9, gpusPerPod: 2 })).toEqual([
    'pool a10g: this package does not know g7e.2xlarge, so it checks neither whether a replica fits, nor quota and price: did you mean "g6e.2xlarge"?',
    expect.stringMatching(/^pool a10g: this package does not know g5.2xlrge, .*: did you mean "g5.2xlarge"\?$/),
  ]);
});

test('getWarnings reports example values', () => {
  expect(of({ publicAccessCidrs: ['203.0.113.0/24'] })).toEqual([
    'publisherSubjects names -your-organisation-, which is an example value that no job has: set publisherSubjects to the subject of a job of your repository (docs/ci.md)',
    'publicAccessCidrs has 203.0.113.0/24, which is an example range: set the addresses from which you run pulumi',
  ]);
});

test('getWarnings reports an example value in prunerSubjects alone', () => {
  const prunerSubjects = ['repo:-your-organisation-/serving:environment:prune'];
  expect(of({ ...OWN, prunerSubjects })).toEqual([
    'prunerSubjects names -your-organisation-, which is an example value that no job has: set prunerSubjects to the subject of a job of your repository (docs/ci.md)',
  ]);
});

test.each(['staging', 'prod'])(
  'getWarnings reports that the API of an unchanged %s is private, and how to open it',
  (stack) => {
    expect(of({}, stack)).toEqual([
      expect.stringMatching(/^publisherSubjects names/),
      expect.stringMatching(
        /^publicAccessCidrs is empty, so the Kubernetes API can be reached from the new VPC only.* pulumi config set --path "publicAccessCidrs\[0\]"/,
      ),
    ]);
    // An existing network may contain the machine that runs pulumi.
    const there = { privateSubnetIds: ['subnet-0a', 'subnet-0b'] };
    expect(of({ ...OWN, ...there, publicAccessCidrs: [] })).toEqual([]);
  },
);

describe('getWarnings compares subjects of GitHub with the forms that repositories have', () => {
  const OLD = 'repo:acme/serving:environment:staging';
  const NEW = 'repo:acme@1/serving@2:environment:staging';

  test.each<[string, Record<string, unknown>, string[]]>([
    ['with ids', { publisherSubjects: [NEW] }, []],
    ['in both forms', { publisherSubjects: [OLD, NEW] }, []],
    ['without ids', { publisherSubjects: [OLD] }, [OLD]],
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
    { gpuNodePools: [SPOT, { ...SPOT, name: 'floor', capacityTypes: ['on-demand'] }] },
    false,
  ],
  ['a managed group of spot nodes', { gpuNodePools: [{ ...GROUP, capacityTypes: ['spot'] }] }, true],
  ['a managed group of on-demand nodes', { gpuNodePools: [GROUP] }, false],
  ['no protection', { protect: false }, false],
  ['replicas on CPUs', { gpusPerPod: 0 }, false],
])('getWarnings reports a protected stack on spot nodes only: %s', (_, values, isReported) => {
  const protectedStack = { ...OWN, protect: true, gpuNodePools: [SPOT], ...values };
  expect(of(protectedStack)).toEqual(
    isReported
      ? [
          expect.stringMatching(
            /^protect is true, but every GPU node pool prefers spot .* may need 18 minutes on a new node/,
          ),
        ]
      : [],
  );
});

test.each<[string, Record<string, unknown>, string | undefined]>([
  ['as many replicas as GPUs', { replicas: 3 }, undefined],
  [
    'more replicas than GPUs',
    { replicas: 4 },
    'replicas is 4, but the GPU node pools have room for 3 at most (maximumGpus)',
  ],
  ['replicas without GPUs', { replicas: 4, gpusPerPod: 0 }, undefined],
  ['no pools', { replicas: 4, gpuNodePools: [] }, undefined],
  [
    'an autoscaler with a larger maximum',
    { autoscaling: { minReplicas: 1, maxReplicas: 12 } },
    'autoscaling.maxReplicas is 12, but the GPU node pools have room for 3 at most (maximumGpus)',
  ],
  [
    'nodes with GPUs that no replica can use',
    {
      replicas: 2,
      gpusPerPod: 3,
      gpuNodePools: [{ name: 'four', instanceTypes: ['g5.12xlarge'], maximumGpus: 6 }],
    },
    'replicas is 2, but the GPU node pools have room for 1 at most (maximumGpus)',
  ],
  [
    'a pool of each kind',
    {
      replicas: 6,
      gpuNodePools: [
        { name: 'nodes', instanceTypes: ['g5.xlarge'], maximumGpus: 1 },
        {
          name: 'group',
          instanceTypes: ['g5.12xlarge'],
          capacityTypes: ['spot'],
          nodes: 1,
        },
      ],
    },
    'replicas is 6, but the GPU node pools have room for 5 at most (maximumGpus and nodes)',
  ],
])('capacityWarning for %s', (_, values, warning) => {
  expect(of({ ...OWN, ...values })).toEqual(
    warning === undefined
      ? []
      : [expect.stringContaining(`${warning}, so the other replicas would stay pending. Raise `)],
  );
});

test('getWarnings reports nothing about an existing cluster', () => {
  expect(of({ s3: LOCAL_S3 }, 'local')).toEqual([]);
});
