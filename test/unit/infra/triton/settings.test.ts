import { readSettings } from '../../../../infra/settings';
import { configOf } from '../../../support/registered-stack';
import { POOL, problemsOf } from '../settings-problems';

describe('settings of the servers', () => {
  test.each<[string, Record<string, unknown>, RegExp[]]>([
    [
      'fewer servers at most than at least',
      { autoscaling: { kind: 'keda', minReplicas: 3, maxReplicas: 2 } },
      [/^autoscaling\.minReplicas: is 3; allowed: at most maxReplicas, 2$/],
    ],
    [
      'autoscaling that does not say how',
      { autoscaling: { minReplicas: 1 } },
      [/^autoscaling\.kind: is missing; allowed: keda, custom-metrics/, /^autoscaling\.maxReplicas: is missing/],
    ],
    [
      'a load balancer for nobody',
      { exposure: 'internal-load-balancer' },
      [/^clientCidrs: is empty; allowed: at least one, such as 10.0.0.0\/16$/],
    ],
    ['an ingress without anything', { exposure: 'ingress' }, [/^ingress: is missing, and exposure is ingress/]],
    [
      'an ingress without TLS and authentication',
      { exposure: 'ingress', ingress: { host: 'a.example.com' } },
      [/^ingress: has 0 certificates/, /^ingress: has 0 ways to authenticate/],
    ],
    [
      'signing in without a secret',
      {
        exposure: 'ingress',
        ingress: {
          host: 'a.example.com',
          certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
          oidc: { issuer: 'i', authorizationEndpoint: 'a', tokenEndpoint: 't', userInfoEndpoint: 'u', clientId: 'c' },
        },
      },
      [/^ingressOidcClientSecret: is missing/],
    ],
  ])('%s', (_, values, said) => {
    expect(problemsOf(values)).toEqual(said.map((text) => expect.stringMatching(text) as unknown));
  });

  test('what TritonServer would refuse is told at once, under the names of the stack file', () => {
    const ingress = {
      host: 'https://a.example.com',
      tlsSecretName: 'tls',
      trustStoreArn: 'arn:aws:elasticloadbalancing:t',
    };
    expect(
      problemsOf({
        namespace: 'My_Models',
        image: 'triton:latest',
        resources: { cpu: 3, cpuLimit: 1, sharedMemoryGiB: 8 },
        startup: { downloadSeconds: 1, loadSeconds: 1, warmUpSeconds: 1 },
        rollout: { maxUnavailable: 2 },
        autoscaling: { kind: 'custom-metrics', minReplicas: 2, maxReplicas: 1 },
        egressCidrs: ['anywhere'],
        exposure: 'ingress',
        ingress,
        clientCidrs: ['10.0.0.0/33'],
        loadBalancerCidrs: ['vpc'],
        extraArguments: ['--http-port=80'],
        environment: { HOME: '/root' },
        // What others check is told beside it.
        availabilityZones: ['us-east-1a'],
      }).map((text) => text.split(': ')[0]),
    ).toEqual([
      'availabilityZones',
      'namespace',
      'image',
      'resources.cpuLimit',
      'resources.sharedMemoryGiB',
      'startup',
      'rollout.maxUnavailable',
      'autoscaling.minReplicas',
      'autoscaling.kind',
      'egressCidrs',
      'clientCidrs',
      'loadBalancerCidrs',
      'ingress.host',
      'ingress',
      'extraArguments',
      'environment',
    ]);
  });

  test('numbers have the same limits in a stack file as in the component', () => {
    expect(
      problemsOf({
        shutdown: { drainSeconds: 0, exitTimeoutSeconds: 3601 },
        autoscaling: { kind: 'keda', minReplicas: 1, maxReplicas: 2, scaleDownAfterSeconds: 7200 },
        monitoring: { scrapeSeconds: 5 },
      }),
    ).toEqual([
      'shutdown.drainSeconds: is 0; allowed: a whole number from 1 to 3600',
      'shutdown.exitTimeoutSeconds: is 3601; allowed: a whole number from 0 to 3600',
      'autoscaling.scaleDownAfterSeconds: is 7200; allowed: a whole number from 0 to 3600',
      'monitoring.scrapeSeconds: is 5; allowed: a whole number from 10 to 300',
    ]);
  });

  test('a load balancer is of a class that the cluster has', () => {
    const values = {
      exposure: 'internal-load-balancer',
      clientCidrs: ['10.0.0.0/8'],
      autoMode: false,
      gpuNodePools: [{ ...POOL, mechanism: 'managed-node-group' }],
    };
    expect(problemsOf(values)).toEqual([
      'loadBalancerClass: is missing, and without Auto Mode nothing makes a load balancer; allowed: the class of a ' +
        'controller that the cluster has, "service.k8s.aws/nlb" for AWS Load Balancer Controller',
    ]);
    expect(problemsOf({ ...values, autoMode: true, gpuNodePools: [POOL] })).toEqual([]);
    const named = readSettings(configOf('staging', { ...values, loadBalancerClass: 'service.k8s.aws/nlb' }));
    expect(named.triton.exposure).toEqual({
      kind: 'internal-load-balancer',
      clientCidrs: ['10.0.0.0/8'],
      loadBalancerCidrs: ['10.0.0.0/16'],
      loadBalancerClass: 'service.k8s.aws/nlb',
    });
  });

  test('an ingress of the own network and cluster gets its class and addresses', () => {
    const ingress = {
      host: 'a.example.com',
      certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
      trustStoreArn: 'arn:aws:elasticloadbalancing:t',
    };
    expect(readSettings(configOf('prod', { exposure: 'ingress', ingress })).triton.exposure).toEqual({
      kind: 'ingress',
      host: 'a.example.com',
      tls: { kind: 'acm', certificateArn: ingress.certificateArn },
      authentication: { kind: 'mutual-tls', trustStoreArn: ingress.trustStoreArn },
      controllerCidrs: ['10.1.0.0/16'],
      createAutoModeClass: true,
    });
  });

  const AT_A_CLASS = {
    host: 'a.example.com',
    certificateArn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',
    trustStoreArn: 'arn:aws:elasticloadbalancing:t',
  };

  test.each([
    ['without Auto Mode', { autoMode: false, gpuNodePools: [] }],
    ['of another class', { ingress: { ...AT_A_CLASS, className: 'nginx' } }],
    [
      'of a cluster that is there',
      {
        cluster: 'existing',
        kubeContext: 'a',
        oidcProviderArn: 'arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/A',
        loadBalancerCidrs: ['10.9.0.0/16'],
        gpuNodePools: [],
      },
    ],
  ])('an ingress %s gets no class', (_, values) => {
    const given = { exposure: 'ingress', ingress: AT_A_CLASS, ...values };
    expect(readSettings(configOf('prod', given)).triton.exposure).toMatchObject({ createAutoModeClass: false });
  });

  test('empty mappings stand for nothing, as in Pulumi.yaml', () => {
    const { triton } = readSettings(
      configOf('staging', { monitoring: {}, autoscaling: {}, resources: {}, ingress: {}, image: '' }),
    );
    expect(Object.keys(triton)).not.toEqual(expect.arrayContaining(['monitoring']));
    expect(triton).not.toHaveProperty('autoscaling');
    expect(triton).not.toHaveProperty('image');
  });
});
