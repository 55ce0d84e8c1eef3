import { readSettings } from '../../../../infra/settings';
import { getConfig } from '../../../support/registered-stack';
import { getProblems } from '../settings-problems';

const INGRESS = {
  kind: 'ingress',
  host: 'a.example.com',
  certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
};

describe('readSettings of the replicas', () => {
  test('reports values that TritonServer rejects, under the same names', () => {
    expect(
      getProblems({
        namespace: { name: 'My_Models' },
        monitoring: { namespace: 'Prom Stack' },
        image: 'triton:latest',
        resources: { cpu: 0 },
        autoscaling: { minReplicas: 2 },
        exposure: { controllerCidrs: ['vpc'], host: 'https://a.example.com' },
        extraArguments: ['--http-port=80'],
        environment: { HOME: '/root' },
        drainSeconds: 0,
        availabilityZones: ['nowhere'],
      }).map((text) => text.split(': ')[0]),
    ).toEqual([
      'availabilityZones[0]',
      'namespace.name',
      'image',
      'resources.cpu',
      'drainSeconds',
      'exposure.controllerCidrs[0]',
      'exposure.host',
      'autoscaling.maxReplicas',
      'monitoring.namespace',
      'extraArguments[0]',
      'environment',
    ]);
  });

  test('reports contradictions between settings together with those of other parts', () => {
    expect(
      getProblems({
        resources: { sharedMemoryGiB: 8 },
        rollout: { maxUnavailable: 2 },
        autoscaling: { minReplicas: 2, maxReplicas: 1 },
        exposure: { kind: 'ingress' },
        availabilityZones: ['us-east-1a'],
      }).map((text) => text.split(': ')[0]),
    ).toEqual([
      'availabilityZones',
      'resources.sharedMemoryGiB',
      'rollout.maxUnavailable',
      'autoscaling.minReplicas',
      'exposure.host',
      'exposure',
    ]);
  });

  test('fills in class and addresses of an ingress in a created network and cluster', () => {
    const { exposure, createIngressClass } = readSettings(getConfig('prod', { exposure: INGRESS })).triton;
    expect(exposure).toMatchObject({ ...INGRESS, className: 'alb', scheme: 'internal' });
    expect(exposure.controllerCidrs).toEqual(['10.1.0.0/19', '10.1.32.0/19', '10.1.64.0/19']);
    expect(createIngressClass).toBe(true);
  });

  test.each([
    ['of another class', { exposure: { ...INGRESS, className: 'nginx' } }],
    [
      'of an existing cluster',
      {
        existingCluster: {
          context: 'a',
          oidcProviderArn: 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/A',
        },
        exposure: { ...INGRESS, controllerCidrs: ['10.9.0.0/16'] },
        gpuNodePools: [],
      },
    ],
  ])('creates no class for an ingress %s', (_, values) => {
    expect(readSettings(getConfig('prod', values)).triton.createIngressClass).toBe(false);
  });

  test('reads empty mappings as missing, as in Pulumi.yaml', () => {
    const given = { monitoring: {}, autoscaling: {}, resources: {}, exposure: {}, image: '' };
    expect(readSettings(getConfig('staging', given)).triton).toEqual(readSettings(getConfig('staging')).triton);
  });
});
