import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { StateResources } from '../../../infra/cluster/live-objects';
import { CONFIG_FIELDS } from '../../../infra/settings/config';
import {
  getServedChanges,
  isLoadBalancerClassChanged,
  refuseToDropNamespace,
  SERVED_SETTINGS,
} from '../../../infra/served-changes';
import { readSettings, type Settings } from '../../../infra/settings';
import { labels } from '../../../infra/triton/names';
import { paths } from '../../../src/core/paths';
import { getConfig } from '../../support/registered-stack';

interface Kept {
  urn: string;
  type: string;
  outputs?: Record<string, unknown>;
}

/** A state of the last release, as Pulumi's engine returns it, with the drain time of nodes of today's program. */
function kept(name: string, drainTime = '4h'): StateResources {
  const file = join(paths.root, 'test', 'data', 'states', `${name}.json`);
  const text = readFileSync(file, 'utf8').replaceAll(
    '"terminationGracePeriod":"1h"',
    `"terminationGracePeriod":"${drainTime}"`,
  );
  const resources = JSON.parse(text) as Kept[];
  return Object.fromEntries(resources.map(({ urn, type, outputs = {} }) => [urn, { type, outputs }]));
}

const GROUP = {
  name: 'al2023',
  mechanism: 'managed-node-group',
  instanceTypes: ['g5.xlarge'],
  minimumNodes: 1,
  maximumNodes: 1,
  capacityTypes: ['on-demand'],
};
const EXISTING = {
  kubeContext: 'admin',
  gpusPerPod: 1,
  bucketName: 'models',
  s3Endpoint: 'http://127.0.0.1:9',
  s3AccessKeyId: 'key',
  s3SecretAccessKey: 'key',
};
const BALANCED = {
  exposure: 'internal-load-balancer',
  clientCidrs: ['10.1.0.0/16'],
  loadBalancerCidrs: ['10.0.0.0/16'],
};

const changes = (state: StateResources, stack: string, values: Record<string, unknown>): string[] =>
  getServedChanges(state, readSettings(getConfig(stack, values)));

test.each<[string, string, Record<string, unknown>]>([
  ['staging', 'staging', {}],
  ['prod', 'prod', {}],
  ['node-groups', 'staging', { autoMode: false, gpuNodePools: [GROUP] }],
  ['existing', 'local', EXISTING],
])('getServedChanges reports nothing for the settings of the live stack %s', (name, stack, values) => {
  expect(changes(kept(name), stack, values)).toEqual([]);
  expect(changes({}, stack, values)).toEqual([]);
});

test.each<[string, string, Record<string, unknown>, string[]]>([
  ['a newer version of this package', '1h', {}, ['the drain time of the nodes changes from 1h to 4h, because of']],
  ['many replicas', '4h', { replicas: 30 }, ['changes from 4h to 16h, because of replicas, autoscaling']],
  ['a few replicas', '4h', { replicas: 3 }, []],
])('getServedChanges reports a drain time that replaces all nodes: %s', (_, drainTime, values, expected) => {
  const found = changes(kept('staging', drainTime), 'staging', values);
  expect(found).toEqual(expected.map((text) => expect.stringContaining(text) as string));
});

test.each<[string, Record<string, unknown>, string[]]>([
  ['a value that is updated in place', { replicas: 1, image: 'triton:1', publicAccessCidrs: ['10.1.2.3/32'] }, []],
  ['clusterName', { clusterName: 'second' }, ['clusterName triton-staging -> second creates another cluster']],
  [
    'cluster',
    {
      cluster: 'existing',
      kubeContext: 'admin',
      oidcProviderArn: 'arn:aws:iam::123456789012:oidc-provider/a.b/id/C',
      gpuNodePools: [],
    },
    [
      'cluster create -> existing deletes the cluster',
      'gpuNodePools no longer has the pool a10g, or has it with another mechanism',
    ],
  ],
  ['vpcCidr', { vpcCidr: '10.9.0.0/16' }, ['vpcCidr 10.0.0.0/16 -> 10.9.0.0/16 replaces the network']],
  [
    'vpcId',
    { vpcId: 'vpc-0a', privateSubnetIds: ['subnet-0a', 'subnet-0b'] },
    ['vpcId empty -> vpc-0a deletes the network'],
  ],
  ['namespace', { namespace: 'vision' }, ['namespace triton -> vision creates all objects']],
  [
    'modelRepositoryPrefix',
    { modelRepositoryPrefix: 'new' },
    ['modelRepositoryPrefix models -> new replicas that start read only the new prefix'],
  ],
  ['bucketName', { bucketName: 'other-models' }, ['bucketName empty -> other-models deletes the bucket']],
  [
    'the name of a pool',
    { gpuNodePools: [{ name: 'other', instanceTypes: ['g5.xlarge'] }] },
    ['gpuNodePools no longer has the pool a10g, or has it with another mechanism'],
  ],
  [
    'autoMode',
    { autoMode: false, gpuNodePools: [{ ...GROUP, name: 'a10g' }] },
    [
      'autoMode true -> false replaces all nodes',
      'gpuNodePools no longer has the pool a10g, or has it with another mechanism',
    ],
  ],
  ['a way in where none was', BALANCED, []],
])('getServedChanges reports %s', (_, values, expected) => {
  const found = changes(kept('staging'), 'staging', values);
  expect(found).toEqual(expected.map((text) => expect.stringContaining(text) as string));
});

test.each<[string, Record<string, unknown>, boolean]>([
  ['labels and size', { labels: { team: 'vision' }, minimumNodes: 2, maximumNodes: 2, diskGiB: 300 }, false],
  ['all zones by name', { zones: ['us-east-1c', 'us-east-1b', 'us-east-1a'] }, false],
  ['instanceTypes', { instanceTypes: ['g5.2xlarge'] }, true],
  ['ami', { ami: 'Bottlerocket' }, true],
  ['capacityTypes', { capacityTypes: ['spot'] }, true],
  ['zones', { zones: ['us-east-1a'] }, true],
])(
  'getServedChanges reports managed node groups with changed %s only if EKS replaces them',
  (_, change, isReplaced) => {
    const values = { autoMode: false, gpuNodePools: [{ ...GROUP, ...change }] };
    expect(changes(kept('node-groups'), 'staging', values)).toEqual(
      isReplaced ? [expect.stringContaining('gpuNodePools replaces the nodes of al2023')] : [],
    );
  },
);

test('getServedChanges reports systemInstanceTypes', () => {
  const values = { autoMode: false, gpuNodePools: [GROUP], systemInstanceTypes: ['m7i.xlarge'] };
  expect(changes(kept('node-groups'), 'staging', values)).toEqual([
    expect.stringMatching(/^systemInstanceTypes m7i\.large, .* -> m7i\.xlarge replaces the system nodes/),
  ]);
});

test('getServedChanges reports another region, another load balancer, and one that is deleted', () => {
  const service = {
    type: 'kubernetes:core/v1:Service',
    outputs: { spec: { type: 'LoadBalancer', loadBalancerClass: 'eks.amazonaws.com/nlb' } },
  };
  const state = { ...kept('staging'), service };
  expect(changes(state, 'staging', BALANCED)).toEqual([]);
  expect(changes(state, 'staging', { ...BALANCED, loadBalancerClass: 'service.k8s.aws/nlb' })).toEqual([
    expect.stringMatching(/^loadBalancerClass eks\.amazonaws\.com\/nlb -> service\.k8s\.aws\/nlb deletes/),
  ]);
  expect(changes(state, 'staging', {})).toEqual([
    expect.stringMatching(/^exposure internal-load-balancer -> cluster deletes/),
  ]);
  const elsewhere = readSettings({
    ...getConfig('staging', { availabilityZones: ['eu-west-1a', 'eu-west-1b'] }),
    region: 'eu-west-1',
  });
  expect(getServedChanges(kept('staging'), elsewhere)).toEqual([
    expect.stringMatching(/^aws:region us-east-1 -> eu-west-1 replaces every resource/),
  ]);
});

test('getServedChanges reports another address of the API server, unless clusterIdentifier is set', () => {
  const kubeconfig = (server: string): string =>
    JSON.stringify({
      'current-context': 'admin',
      contexts: [{ name: 'admin', context: { cluster: 'a', user: 'admin' } }],
      clusters: [{ name: 'a', cluster: { server } }],
      users: [{ name: 'admin', user: { token: 'token-of-a-test' } }],
    });
  const live = (outputs: Record<string, unknown> = {}): StateResources => ({
    provider: {
      type: 'pulumi:providers:kubernetes',
      outputs: { kubeconfig: kubeconfig('https://10.0.0.1'), ...outputs },
    },
  });
  const next = (server: string, more: Record<string, unknown> = {}): Record<string, unknown> => ({
    ...EXISTING,
    kubeconfig: kubeconfig(server),
    ...more,
  });
  const other = next('https://10.0.0.2');
  expect(changes(live(), 'local', next('https://10.0.0.1'))).toEqual([]);
  expect(changes(live(), 'local', other)).toEqual([
    expect.stringContaining('kubeconfig https://10.0.0.1 -> https://10.0.0.2 creates all objects'),
  ]);
  expect(changes(live({ clusterIdentifier: 'one' }), 'local', { ...other, clusterIdentifier: 'one' })).toEqual([]);
  expect(changes(live(), 'local', { ...other, renderManifestsTo: 'manifests' })).toEqual([]);
  expect(changes({}, 'local', other)).toEqual([]);
});

test.each<[string, Record<string, unknown>, boolean]>([
  ['the same settings', {}, false],
  ['another namespace', { namespace: 'vision' }, false],
  ['another clusterName', { clusterName: 'second' }, false],
  ['another loadBalancerClass', { loadBalancerClass: 'service.k8s.aws/nlb' }, true],
])(
  'isLoadBalancerClassChanged returns for %s whether the old load balancer must be deleted first',
  (_, change, first) => {
    const outputs = { spec: { type: 'LoadBalancer', loadBalancerClass: 'eks.amazonaws.com/nlb' } };
    const state = { ...kept('staging'), service: { type: 'kubernetes:core/v1:Service', outputs } };
    const settings = readSettings(getConfig('staging', { ...BALANCED, ...change }));
    expect(isLoadBalancerClassChanged(state, settings)).toBe(first);
    expect(isLoadBalancerClassChanged(kept('staging'), settings)).toBe(false);
  },
);

test('the description of each of these settings reports what a change replaces or deletes', () => {
  const fields: Readonly<Record<string, { description: string }>> = CONFIG_FIELDS;
  for (const setting of SERVED_SETTINGS.filter((name) => !name.includes(':'))) {
    expect([setting, fields[setting]?.description]).toEqual([
      setting,
      expect.stringMatching(/(change|removed).*(replace|delete|creates|start)/i),
    ]);
  }
});

describe('refuseToDropNamespace', () => {
  const namespace = (labels?: object) => ({
    type: 'kubernetes:core/v1:Namespace',
    outputs: { metadata: { name: 'old', ...(labels && { labels }) } },
  });
  const own = { namespace: namespace(labels('triton')) };
  const settings = (name: string, create = false, protect = true) =>
    ({ protect, triton: { namespace: { name, create, protect } } }) as unknown as Settings;

  test.each([
    ['a new stack', {}, settings('new')],
    ['a release of the namespace', own, settings('old')],
    ['a namespace that the stack replaces, which Pulumi refuses', own, settings('new', true)],
    ['a stack without protection', own, settings('new', false, false)],
    ['a namespace without labels', { namespace: namespace() }, settings('new')],
    ['a namespace of others', { namespace: namespace({ 'app.kubernetes.io/instance': 'argo' }) }, settings('new')],
  ])('accepts %s', (_, state, next) => {
    expect(() => refuseToDropNamespace(state, next)).not.toThrow();
  });

  test('refuses another namespace with createNamespace: false in a protected stack', () => {
    expect(() => refuseToDropNamespace(own, settings('new'))).toThrow(
      /this stack created the namespace old: .* delete/,
    );
  });
});
