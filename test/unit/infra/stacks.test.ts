import { parseStackOutputs } from '../../../src/publish/cluster/stack-outputs';
import { ACCOUNT, registeredStack, type RegisteredStack } from '../../support/registered-stack';
import { PUBLISHER } from '../../support/setting-values';

describe.each(['staging', 'prod'])('stack %s', (stack) => {
  let made: RegisteredStack;
  beforeAll(async () => {
    made = await registeredStack(stack, { ...PUBLISHER, bake: { minutes: 5 } });
  });

  test('names no resource after the stack', () => {
    const own = made.resources.filter(({ type }) => type !== 'pulumi:pulumi:Stack');
    expect(own.map(({ name }) => name).filter((name) => name.includes(stack))).toEqual([]);
  });

  test('exports the outputs that publishing reads', () => {
    const { kubeconfig, ...outputs } = made.outputs;
    const { secret } = kubeconfig as { secret: string };
    const { cluster } = parseStackOutputs(stack, { ...outputs, kubeconfig: secret });
    expect(Object.keys(cluster ?? {})).toHaveLength(5);
    expect(cluster?.bake).toEqual({ minutes: 5, maxErrorRate: 0.001, maxLatencyRatio: 1.5 });
    expect(made.outputs).toMatchObject({
      modelRepository: `s3://models-a1b2c3d/models`,
      region: 'us-east-1',
      clusterName: `triton-${stack}`,
      namespace: 'triton',
      podSelector: 'app.kubernetes.io/name=triton,app.kubernetes.io/instance=triton',
      publisherRoleArn: expect.stringContaining('publisher') as string,
    });
  });

  test('deletes the models bucket before its key', () => {
    const { dependencies } = made.only('aws:s3/bucket:Bucket', 'models');
    expect(dependencies).toContain(made.only('aws:kms/key:Key', 'models-key').urn);
  });

  test('creates all Kubernetes objects with the provider of its own cluster', () => {
    const kubernetes = made.resources.filter(({ type }) => type.startsWith('kubernetes:'));
    expect(kubernetes.length).toBeGreaterThan(10);
    for (const { name, provider } of kubernetes)
      expect([name, provider]).toEqual([name, made.only('pulumi:providers:kubernetes').name]);
    const { inputs } = made.only('pulumi:providers:kubernetes');
    expect(inputs).toMatchObject({ clusterIdentifier: `arn:aws:eks:us-east-1:${ACCOUNT}:cluster/triton-${stack}` });
    expect(JSON.stringify(inputs['kubeconfig'])).toContain('get-token');
  });
});
