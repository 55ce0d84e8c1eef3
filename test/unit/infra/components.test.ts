import { RunError } from '@pulumi/pulumi';
import * as components from '../../../infra/components';
import { registered, registeredStack, type RegisteredStack } from '../../support/registered-stack';
import { ARGS } from '../../support/render';
import { INGRESS, PUBLISHER } from '../../support/setting-values';

const { GpuNodes, Network, TritonServer } = components;

/** The resources that another Pulumi program creates. */
const other = (run: () => Record<string, unknown>): Promise<RegisteredStack> => registered(run, 'other');

const getTypes = ({ resources }: RegisteredStack): Set<string> => new Set(resources.map(({ type }) => type));

test('components.ts exports every component of the program', async () => {
  const { resources } = await registeredStack('staging', PUBLISHER);
  const own = 'triton-serving:';
  const ours = resources.filter(({ type, parent }) => type.startsWith(own) && !parent.includes(own));
  const names = new Set(ours.map(({ type }) => type.split(':').at(-1) ?? ''));
  expect([...names].sort()).toEqual([
    'Cluster',
    'EncryptionKey',
    'GpuNodes',
    'ModelRepository',
    'Network',
    'PublisherRole',
    'TritonAccess',
    'TritonServer',
  ]);
  for (const name of names) expect(components).toHaveProperty(name);
});

describe('another program', () => {
  test('can create only a network', async () => {
    const made = await other(() => {
      const network = new Network('mine', {
        region: 'eu-west-1',
        vpcCidr: '10.0.0.0/16',
        availabilityZones: ['eu-west-1a', 'eu-west-1b'],
        natGateways: 'one',
        logDays: 30,
        logKeyArn: 'arn:aws:kms:eu-west-1:111122223333:key/mine',
      });
      return { subnets: network.privateSubnetIds };
    });
    expect(made.outputs['subnets']).toHaveLength(2);
    for (const type of getTypes(made))
      expect(type).toMatch(/^(aws:(ec2|iam|cloudwatch)\/|triton-serving:infra:Network$)/);
  });

  test('gives the objects of a server the name of the component, and gets the address of an ingress', async () => {
    const made = await other(() => {
      const args = { ...ARGS, namespace: { name: 'serving' }, exposure: INGRESS };
      const { podSelector, serviceUrl, externalUrl } = new TritonServer('faces', args);
      return { podSelector, serviceUrl, externalUrl };
    });
    expect(made.outputs).toEqual({
      podSelector: 'app.kubernetes.io/name=triton,app.kubernetes.io/instance=faces',
      serviceUrl: 'http://faces.serving.svc:8000',
      externalUrl: 'https://triton.example.com',
    });
    const metadata = made.resources
      .filter(({ type }) => type.startsWith('kubernetes:') && !type.endsWith(':Namespace'))
      .map(({ marked }) => marked['metadata'] as { name?: string; namespace: string });
    expect(new Set(metadata.map(({ namespace }) => namespace))).toEqual(new Set(['serving']));
    // Pulumi gives the ConfigMap of the agent a new name when its content changes.
    expect(new Set(metadata.map(({ name }) => name))).toEqual(
      new Set(['faces', 'faces-default-deny', 'faces-headless', 'faces-publisher', undefined]),
    );
  });

  test('can create a pool for an existing Karpenter', async () => {
    const nodeClass = { group: 'karpenter.k8s.aws', kind: 'EC2NodeClass', name: 'default' };
    const made = await other(() => {
      const pool = { name: 'a10g', instanceTypes: ['g5.xlarge'], nodeClass };
      return { pools: new GpuNodes('gpu', { pools: [pool] }).pools.length };
    });
    expect([...getTypes(made)].filter((type) => !type.startsWith('triton-serving:'))).toEqual([
      'kubernetes:karpenter.sh/v1:NodePool',
    ]);
  });

  test('gets an error without a stack trace for a pool without a node class in a cluster that it does not create', async () => {
    const pools = [{ name: 'a10g', instanceTypes: ['g5.xlarge'] }];
    await other(() => {
      const refused = expect(() => new GpuNodes('mine', { pools }));
      refused.toThrow(new RunError('pool a10g: cluster is missing; only pools with a nodeClass need no cluster'));
      refused.toThrow(RunError);
      return {};
    });
  });
});
