import { readSettings } from '../../../infra/settings';
import { warningsOf } from '../../../infra/warnings';
import { configOf } from './program';

const TODAY = new Date('2026-06-01');
const of = (values: Record<string, unknown>, stack = 'staging', today = TODAY): string[] =>
  warningsOf(readSettings(configOf(stack, values)), today);

const OWN = { publicAccessCidrs: ['10.9.8.0/24'], publisherSubjects: ['repo:acme/serving:environment:staging'] };

test("nothing is said of a stack that was made one's own", () => {
  expect(of(OWN)).toEqual([]);
});

test('examples that were left in', () => {
  expect(of({ publicAccessCidrs: ['203.0.113.0/24'] })).toEqual([
    'publicAccessCidrs has 203.0.113.0/24, which is an example: set it to the addresses that you run pulumi from',
    'publisherSubjects names -your-organisation-, which is an example: nobody can publish with the role',
  ]);
});

test.each(['staging', 'prod'])(
  '%s as it comes: nobody reaches the cluster from elsewhere, and how one does',
  (stack) => {
    expect(of({}, stack)).toEqual([
      expect.stringMatching(
        /^publicAccessCidrs is empty: only from .* pulumi config set --path "publicAccessCidrs\[0\]"/,
      ),
      expect.stringMatching(/^publisherSubjects names/),
    ]);
    // In a network that was there somebody may be.
    const there = { vpcId: 'vpc-0a', privateSubnetIds: ['subnet-0a', 'subnet-0b'] };
    expect(of({ ...OWN, ...there, publicAccessCidrs: [] })).toEqual([]);
  },
);

test('managed groups that may grow, and that nothing makes grow', () => {
  const pool = { name: 'fixed', mechanism: 'managed-node-group', instanceTypes: ['g5.xlarge'] };
  expect(of({ ...OWN, gpuNodePools: [pool, { ...pool, name: 'full', minimumNodes: 2 }] })).toEqual([
    'pool fixed is made with 0 nodes, and nothing here ever adds any, up to 2 or otherwise: set minimumNodes to what is needed, or run an autoscaler of your own',
  ]);
});

test('a version whose support ends', () => {
  expect(of(OWN, 'staging', new Date('2027-03-01'))).toEqual([expect.stringMatching(/ends on 2027-03-27/)]);
});

test("an existing cluster is its owner's business", () => {
  expect(of({ s3AccessKeyId: 'a', s3SecretAccessKey: 'b' }, 'local')).toEqual([]);
});
