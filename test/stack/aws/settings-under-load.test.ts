import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { awsStack, HERE, whyNoAwsStack, type AwsStack } from '../../support/aws-stack';
import { describeUnless } from '../../support/describe-unless';
import { Kubelet } from '../../support/incidents/kubelet';
import { serveLoadBalancers } from '../../support/load-balancers';
import { addingModel, writeRepository } from '../../support/repository';
import { openBucket, S3_ENVIRONMENT, testS3 } from '../../support/s3';
import { report } from '../../support/soak';
import type { StackConfig } from '../../support/stack';
import { defineStubCrds } from '../../support/stub-crds';
import { Scratch } from '../../support/temp-dir';
import { TestRepository } from '../../support/test-repository';

const BUILD_MS = 60 * 60_000;
const STEP_MS = 20 * 60_000;
/** The waits of the agents are this much shorter. */
const FACTOR = 10;
const PAUSE_MS = 25;
const AMOUNT = 7;

const LOAD_BALANCER = {
  kind: 'internal-load-balancer',
  clientCidrs: ['10.1.0.0/16'],
  controllerCidrs: ['10.0.0.0/16'],
};
const CLUSTER = /eks\/cluster:Cluster::cluster/;

/**
 * Changes of one setting each, on a live stack: the real AWS provider on a mock of AWS, a real control plane, and pods that
 * are real servers with their agents. Clients send requests without a pause, and none fails.
 */
describeUnless(whyNoAwsStack(), 'settings that change while clients send requests', () => {
  const scratch = new Scratch();
  let made: AwsStack;
  let kubelet: Kubelet;
  let namespace: string | undefined;
  const faults: string[] = [];
  let requests = 0;
  let isStopping = false;

  /** Sends a request as a Service does: to one of the pods that are Ready, and to another one if that pod has just ended. */
  async function ask(turn: number, attempts = 3): Promise<void> {
    const { serving } = kubelet;
    const pod = serving[turn % serving.length];
    if (pod === undefined) return void faults.push('no pod is Ready');
    const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(1) } as const;
    try {
      const [y] = (await pod.triton.client.infer('adds', [x])).outputs;
      if (y?.data[0] !== 1 + AMOUNT) faults.push(`${pod.name} answered ${String(y?.data[0])}`);
    } catch (error) {
      if (attempts > 1 && !kubelet.serving.includes(pod)) return ask(turn + 1, attempts - 1);
      faults.push(`${pod.name}: ${String(error)}`);
    }
  }

  async function sendRequests(): Promise<void> {
    for (; !isStopping; requests += 1) {
      await ask(requests);
      await sleep(PAUSE_MS);
    }
  }

  const getUid = async (): Promise<string | undefined> =>
    (await made.plane.client.core.readNamespace({ name: 'triton' })).metadata?.uid;

  beforeAll(async () => {
    const { endpoint } = await testS3(scratch);
    const place = new TestRepository(await openBucket(scratch, endpoint, 'live'), 'models');
    await place.publish(writeRepository(join(scratch.directory, 'repository'), addingModel('adds', { 1: AMOUNT })));
    made = await awsStack(scratch, 'staging', {
      config: { publicAccessCidrs: [HERE], protect: true, clusterName: 'triton-staging', kubernetesVersion: '1.35' },
      simulatePods: false,
    });
    await defineStubCrds(made.plane, ['keda.sh', 'monitoring.coreos.com']);
    serveLoadBalancers(made.plane, scratch);
    kubelet = new Kubelet(scratch, made.plane, {
      namespace: 'triton',
      bucket: 's3://live/models',
      env: { PATH: process.env['PATH'], ...S3_ENVIRONMENT, AWS_ENDPOINT_URL_S3: endpoint },
      factor: FACTOR,
    });
    kubelet.start();
    scratch.defer(() => kubelet.stop());
    await made.stack.up();
    namespace = await getUid();
    const running = sendRequests();
    scratch.defer(() => {
      isStopping = true;
      return running;
    });
  }, BUILD_MS);
  afterAll(async () => {
    await scratch.clean();
    report('settings under load', { requests });
  });
  afterEach(async () => {
    expect(faults.splice(0)).toEqual([]);
    expect(await getUid()).toBe(namespace);
  });

  /** A change to an existing cluster without pools. */
  const toExisting = (): StackConfig => ({
    existingCluster: {
      kubeconfig: made.plane.access.kubeconfigFile(),
      oidcProviderArn: 'arn:aws:iam::123456789012:oidc-provider/oidc.example.com/id/1',
    },
    gpuNodePools: [],
    // Only a created cluster has these.
    ...{ publicAccessCidrs: [], clusterName: '', kubernetesVersion: '' },
  });

  test.each<[setting: string, config: StackConfig | (() => StackConfig), protectedResource: RegExp]>([
    ['clusterName', { clusterName: 'triton-second' }, CLUSTER],
    ['vpcCidr', { vpcCidr: '10.64.0.0/16' }, CLUSTER],
    ['existingCluster', toExisting, CLUSTER],
    ['namespace.name', { namespace: { name: 'vision' } }, /core\/v1:Namespace::triton/],
    ['modelRepository', { modelRepository: 's3://another-bucket/models' }, /s3\/bucket:Bucket.*::models/],
  ])(
    '%s: the preview, with which up begins, is refused and names what would be deleted',
    async (_, config, resource) => {
      const before = made.stack.configure(typeof config === 'function' ? config() : config);
      const refusal = await made.stack.preview().catch((error: unknown) => String(error));
      made.stack.configure(before);
      expect(refusal).toMatch(resource);
      expect(refusal).toMatch(/protect/);
    },
    STEP_MS,
  );

  test.each<[setting: string, config: StackConfig]>([
    ['exposure.kind', { exposure: LOAD_BALANCER }],
    ['exposure.loadBalancerClass', { exposure: { ...LOAD_BALANCER, loadBalancerClass: 'service.k8s.aws/nlb' } }],
    ['exposure', { exposure: undefined }],
    ['availabilityZones', { availabilityZones: ['us-east-1a', 'us-east-1b'] }],
    ['gpuNodePools', { gpuNodePools: [{ name: 'l4', instanceTypes: ['g6.xlarge'], maximumGpus: 3 }] }],
    ['kubernetesVersion', { kubernetesVersion: '1.36' }],
    ['natGateways', { natGateways: 'per-zone' }],
    ['logDays', { logDays: 30 }],
    ['publisherSubjects', { publisherSubjects: [] }],
    ['oldVersionDays', { oldVersionDays: 60 }],
    ['replicas', { replicas: 3 }],
    ['environment', { environment: { TZ: 'UTC' } }],
    ['resources', { resources: { memoryGiB: 12 } }],
    ['drainSeconds', { drainSeconds: 45 }],
    ['pod.tolerations', { pod: { tolerations: [{ key: 'team', operator: 'Exists' }] } }],
    ['clientNamespaces', { clientNamespaces: ['web'] }],
    ['monitoring', { monitoring: { namespace: 'monitoring' } }],
    ['autoscaling', { autoscaling: { minReplicas: 3, maxReplicas: 3 } }],
    ['namespace.create', { namespace: { create: false } }],
  ])(
    '%s: up changes it, and another up finds nothing to change',
    async (_, config) => {
      made.stack.configure(config);
      await made.stack.up();
      await made.stack.up('--expect-no-changes');
    },
    STEP_MS,
  );
});
