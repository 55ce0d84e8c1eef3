import { createServer } from 'node:http';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateSubnetCommand, CreateVpcCommand, EC2Client } from '@aws-sdk/client-ec2';
import {
  CreateListenerCommand,
  CreateLoadBalancerCommand,
  CreateTargetGroupCommand,
  ElasticLoadBalancingV2Client,
  RegisterTargetsCommand,
} from '@aws-sdk/client-elastic-load-balancing-v2';
import { CreateAccessKeyCommand, CreateUserCommand, IAMClient, PutUserPolicyCommand } from '@aws-sdk/client-iam';
import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { ReportLine } from '../../infra/doctor/doctor';
import { AFTER_UP_RIGHTS } from '../../infra/doctor/rights';
import { defaultImage } from '../../infra/triton/image';
import type { AgentState } from '../../src/release/agent-api';
import { whyNoGo } from '../../tools/toolchain/go';
import { ControlPlane, type TestNode } from '../support/control-plane';
import { describeUnless } from '../support/describe-unless';
import { listenOnLoopback } from '../support/loopback';
import { testMoto, type Moto } from '../support/moto';
import { testPulumi, type TestPulumi } from '../support/pulumi';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { until } from '../support/wait-for';

const BUILD_MS = 30 * 60_000;
const STATE_MS = 120_000;

const REGION = 'us-east-1';
const MOCK = { region: REGION, credentials: { accessKeyId: 'mock', secretAccessKey: 'mock' } };
const NAMESPACE = 'triton';
const IMAGE = defaultImage();
const LABELS = { 'app.kubernetes.io/name': 'triton' };
const ADDRESS = '10.0.0.10';

/** Begins the log of NVIDIA's images. */
const banner = (...lines: string[]): string =>
  [
    '== Triton Inference Server ==',
    '',
    'NVIDIA Release 26.11 (build 1)',
    '',
    ...lines,
    'I1126 server.cc:1] started',
  ].join('\n');
const COMPATIBLE = banner(
  'NOTE: CUDA Forward Compatibility mode ENABLED.',
  '  Using CUDA 13.4 driver version 595.10.01 with kernel driver version 580.178.01.',
);
const PULLED = `Successfully pulled image "${IMAGE}" in 39.553s (41.2s including waiting). Image size: 9354342327 bytes.`;

interface State {
  name: string;
  /** The node; null for none. */
  node?: Partial<TestNode> | null;
  /** Whether the pod gets the node. Default: true. */
  placed?: boolean;
  log?: string;
  /** Message of the event of the pull; null for none. */
  pulled?: string | null;
  gpus?: number;
  /** Whether the pod ends connections without an answer. */
  isSilent?: boolean;
  state?: Partial<AgentState>;
  /** State and reason of targets of the load balancer. */
  targets?: Record<string, [string, string?]>;
  /** Whether the Service has its address. Default: true. */
  address?: string;
  /** Whether the namespace also has a load balancer and a pull of another workload. */
  hasOthers?: boolean;
  /** Lines that are not ok, as "level check". Default: none. */
  finds?: string[];
  /** Texts of the report. */
  says?: RegExp[];
}

const POOL_LABELS = {
  'triton-serving/gpu': 'true',
  'triton-serving/gpu-pool': 'a10g',
  'node.kubernetes.io/instance-type': 'g5.xlarge',
};
const driver = (version: string) => ({ ...POOL_LABELS, 'nvidia.com/cuda.driver-version.full': version });

const STATES: State[] = [
  {
    name: 'a stack that works',
    says: [
      /gpu-0 \(g5.xlarge\) is Ready, with 1 GPU/,
      /228 GiB for images and pods, which is its local NVMe storage \(232 GiB\)/,
      /driver 580.178.01, with the forward compatibility of CUDA 13.4 in the image/,
      /1 of 1 replicas are ready/,
      /triton-\d+: 41.2 s/,
      /triton-\d+: resnet \(GPU\)/,
      /1 of 1 targets are healthy/,
    ],
  },
  { name: 'a stack beside another workload', hasOthers: true, says: [/1 of 1 targets are healthy/] },
  {
    name: 'a driver in the labels of the node',
    log: '',
    node: { labels: driver('580.178.01') },
    says: [/driver 580.178.01"/],
  },
  { name: 'a stack whose events have expired', pulled: null, says: [/no replica has an event of a pull/] },
  { name: 'an image that was on the node', pulled: `Container image "${IMAGE}" already present on machine` },
  {
    name: 'no GPU node',
    node: null,
    placed: false,
    pulled: null,
    finds: ['error GPU nodes', 'error replicas'],
    says: [/there is no node of a10g/, /0 of 1 replicas are ready; not ready: triton-\d+ \(no nodes available/],
  },
  {
    name: 'a GPU node that is not Ready',
    node: { notReady: 'container runtime network not ready' },
    placed: false,
    pulled: null,
    finds: ['warning GPU nodes', 'error replicas'],
    says: [/gpu-0 \(g5.xlarge\) is not Ready: container runtime network not ready; it is younger than 10 minutes/],
  },
  {
    name: 'a node whose device plugin does not run',
    node: { gpus: 0 },
    placed: false,
    pulled: null,
    finds: ['warning GPU nodes', 'error replicas'],
    says: [/is Ready, but has no GPU that pods can request/],
  },
  {
    name: 'a node with images on EBS instead of NVMe',
    node: { storage: '19Gi' },
    finds: ['warning local storage'],
    says: [/gpu-0 has 19 GiB .* but g5.xlarge has 232 GiB of local NVMe storage, which this version should use/],
  },
  {
    name: 'a driver that is too old for the image',
    log: banner(
      'ERROR: This container was built for NVIDIA Driver Release 595.58 or later, but',
      '       version 535.183.01 was detected and compatibility mode is UNAVAILABLE.',
    ),
    finds: ['error GPU driver'],
    says: [/driver 535.183.01 is too old for the image, which needs 595.58/, /TRITON_RELEASE/],
  },
  {
    name: 'no driver',
    log: banner('WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.'),
    finds: ['error GPU driver'],
    says: [/the container finds no NVIDIA driver/],
  },
  {
    name: 'an insufficient driver that only CUDA reports',
    log: banner('E1126 CUDA driver version is insufficient for CUDA runtime version'),
    finds: ['error GPU driver'],
    says: [/too old for the CUDA of the image/],
  },
  {
    name: 'a label with a driver before CUDA 13',
    log: '',
    node: { labels: driver('575.51.03') },
    finds: ['warning GPU driver'],
    says: [/driver 575.51.03 is older than 580, which CUDA 13 of the image needs/],
  },
  {
    name: 'a slow pull',
    pulled: PULLED.replace('41.2s', '7m10.813s'),
    finds: ['warning image pull'],
    says: [/triton-\d+: 7 min 11 s, longer than the 300 s/, /docs.operations.md#images-from-another-registry/],
  },
  {
    name: 'a Triton that sees no GPU',
    gpus: 0,
    finds: ['error models on GPU'],
    says: [/Triton sees 0 of 1 GPU, so its models compute on the CPU/, /#tritongpumissing/],
  },
  {
    name: 'a release that the agent cannot serve',
    state: { problem: 'cannot load resnet: out of memory' },
    finds: ['error models on GPU'],
    says: [/triton-\d+: cannot load resnet: out of memory/, /npm run status -- --stack staging/],
  },
  {
    name: 'a pod that does not answer',
    isSilent: true,
    finds: ['error models on GPU'],
    says: [/triton-\d+: Triton's metrics cannot be read: no answer within 10.0 s/],
  },
  {
    name: 'no models',
    state: { models: [] },
    finds: ['warning models on GPU'],
    says: [/triton-\d+ serves no model/, /npm run sync-models -- --stack staging/],
  },
  {
    name: 'models on the CPU only',
    state: { models: [{ name: 'resnet', versions: [1], device: 'CPU', asked: null }] },
    finds: ['warning models on GPU'],
    says: [/no model uses the GPU: resnet \(CPU\)/],
  },
  {
    name: 'a load balancer without an address',
    address: '',
    finds: ['error load balancer'],
    says: [/has no address yet/],
  },
  {
    name: 'an address of another account',
    address: 'other.elb.us-east-1.amazonaws.com',
    finds: ['warning load balancer'],
    says: [/other.elb.us-east-1.amazonaws.com is not the address of a load balancer in this account and region/],
  },
  {
    name: 'an unhealthy target',
    targets: { [ADDRESS]: ['unhealthy', 'Target.Timeout'] },
    finds: ['error load balancer'],
    says: [/10.0.0.10:8000 is unhealthy \(Target.Timeout\)/],
  },
  {
    name: 'a target that is not yet healthy',
    targets: { [ADDRESS]: ['initial', 'Elb.RegistrationInProgress'] },
    finds: ['warning load balancer'],
    says: [/no target is healthy yet: 10.0.0.10:8000 is initial/],
  },
];

/** `npm run doctor -- --after-up` against a real API server with simulated nodes and pods, and the mock of AWS. */
describeUnless(whyNoGo(['pulumi', 'kubernetes']), 'the doctor after an update', () => {
  const scratch = new Scratch();
  let plane: ControlPlane;
  let moto: Moto;
  let pulumi: TestPulumi;
  let loadBalancer: string;
  let pod: { port: number };
  /** The state that the pod reports now. */
  let answers: State = { name: '' };
  // A name that is used again may get the end of the former pod.
  let pods = 0;

  beforeAll(async () => {
    process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
    plane = await ControlPlane.start(scratch, { groups: { viewer: 'none' } });
    moto = await testMoto(scratch);
    loadBalancer = await createLoadBalancer(moto);
    pod = await servePod(() => answers, scratch);
    await plane.client.core.createNamespace({ body: { metadata: { name: NAMESPACE } } });
    await until('pods are accepted', async () => {
      const { items } = await plane.client.core.listNamespacedServiceAccount({ namespace: NAMESPACE });
      return items.length > 0;
    });
    pulumi = await testPulumi(scratch);
    for (const [stack, user] of [
      ['staging', 'admin'],
      ['refused', 'viewer'],
    ] as const) {
      const outputs = { modelRepository: 's3://bucket/models', region: REGION };
      await pulumi.createStack(
        stack,
        { ...outputs, namespace: NAMESPACE, podSelector: 'app.kubernetes.io/name=triton' },
        { kubeconfig: plane.access.kubeconfig(user) },
      );
    }
    const config = {
      'aws:region': REGION,
      'serving:availabilityZones': ['us-east-1a', 'us-east-1b'],
      'serving:replicas': 1,
      'serving:gpuNodePools': [{ name: 'a10g', instanceTypes: ['g5.xlarge'], maximumGpus: 2 }],
      'serving:exposure': 'internal-load-balancer',
      'serving:clientCidrs': ['10.0.0.0/8'],
    };
    // JSON is YAML.
    for (const stack of ['staging', 'refused']) {
      writeFileSync(join(pulumi.directory, `Pulumi.${stack}.yaml`), JSON.stringify({ config }));
    }
  }, BUILD_MS);
  afterAll(() => scratch.clean());
  afterEach(async () => {
    const { core } = plane.client;
    const namespace = NAMESPACE;
    await core.deleteCollectionNamespacedPod({ namespace, gracePeriodSeconds: 0 });
    await core.deleteCollectionNamespacedEvent({ namespace });
    await core.deleteCollectionNamespacedService({ namespace });
    await core.deleteCollectionNode();
    await until('the pod is gone', async () => (await plane.pods(NAMESPACE)).length === 0);
  });

  /** @param hostname of the load balancer; empty for none */
  async function addBalancer(metadata: { name: string; labels?: typeof LABELS }, hostname: string): Promise<void> {
    const { core } = plane.client;
    const namespace = NAMESPACE;
    const spec = { type: 'LoadBalancer', ports: [{ port: 8000 }], selector: LABELS };
    const service = await core.createNamespacedService({ namespace, body: { metadata, spec } });
    if (hostname === '') return;
    const body = Object.assign(service, { status: { loadBalancer: { ingress: [{ hostname }] } } });
    await core.replaceNamespacedServiceStatus({ namespace, name: metadata.name, body });
  }

  /** Brings the cluster and the account into the state. */
  async function make(state: State): Promise<void> {
    answers = state;
    const podName = `triton-${(pods += 1)}`;
    const { core } = plane.client;
    const { node = {}, placed = true, log = COMPATIBLE, pulled = PULLED, address = loadBalancer, targets = {} } = state;
    if (node !== null) await plane.addGpuNode('gpu-0', { storage: '228Gi', labels: POOL_LABELS, ...node });
    await core.createNamespacedPod({ namespace: NAMESPACE, body: getPod(podName, state) });
    if (placed) await until('the pod is ready', async () => (await plane.readyPods(NAMESPACE)).length === 1);
    else
      await until(
        'the scheduler has refused the pod',
        async () => (await plane.pods(NAMESPACE))[0]?.status?.conditions !== undefined,
      );
    await plane.forwardPod(NAMESPACE, podName, pod.port);
    await plane.showLog(NAMESPACE, podName, 'triton', log);
    if (pulled !== null) await core.createNamespacedEvent({ namespace: NAMESPACE, body: getEvent(podName, pulled) });
    await addBalancer({ name: 'triton-internal', labels: LABELS }, address);
    if (state.hasOthers === true) {
      await addBalancer({ name: 'other' }, 'other.elb.us-east-1.amazonaws.com');
      const event = getEvent('other', PULLED.replace('41.2s', '7m10.813s'));
      await core.createNamespacedEvent({ namespace: NAMESPACE, body: event });
    }
    const response = await fetch(`${moto.endpoint}/moto-api/target-states`, {
      method: 'POST',
      body: JSON.stringify(targets),
    });
    expect(response.status).toBe(200);
  }

  const examine = (stack: string, args: string[], env: NodeJS.ProcessEnv = {}) =>
    runCommandLine('doctor', ['--stack', stack, '--stack-dir', pulumi.directory, '--after-up', ...args], {
      ...pulumi.env,
      ...moto.env,
      PATH: pulumi.env['PATH'],
      ...env,
    });
  const run = (...args: string[]) => examine('staging', args);

  test.each(STATES)(
    '$name',
    async (state) => {
      await make(state);
      const { finds = [], says = [] } = state;
      const { code, stdout, stderr } = await run('--json');
      expect(stderr).toBe('');
      const { checks } = JSON.parse(stdout) as { checks: ReportLine[] };
      const found = checks.filter(({ level }) => level !== 'ok').map(({ level, check }) => `${level} ${check}`);
      expect({ found, code }).toEqual({ found: finds, code: finds.some((line) => line.startsWith('error')) ? 1 : 0 });
      for (const pattern of says) expect(stdout).toMatch(pattern);
    },
    STATE_MS,
  );

  test(
    'prints a line for each result, and its fix',
    async () => {
      await make({ name: '', gpus: 0 });
      const { stdout } = await run();
      expect(stdout).toMatch(/^ok {7}GPU nodes {6}gpu-0 \(g5\.xlarge\) is Ready, with 1 GPU$/m);
      expect(stdout).toMatch(
        /^error {4}models on GPU {2}triton-\d+: Triton sees 0 of 1 GPU.*\n {2}-> docs\/runbook\.md/m,
      );
    },
    STATE_MS,
  );

  test(
    'a user without rights in the cluster learns for each check which role is needed',
    async () => {
      await make({ name: '' });
      const { code, stdout } = await examine('refused', ['--json']);
      const { checks } = JSON.parse(stdout) as { checks: ReportLine[] };
      expect(code).toBe(1);
      expect(checks.length).toBeGreaterThan(6);
      for (const { level, found, fix } of checks) {
        expect(level).toMatch(/error|warning/);
        expect(found).toMatch(/^not checked: cannot .*: not permitted \(HTTP 403/);
        expect(fix).toMatch(/role of clusterAdmins|verb "list" on "pods"/);
      }
    },
    STATE_MS,
  );

  test(
    'needs each of its rights in AWS, and no other one',
    async () => {
      await make({ name: '' });
      const iam = new IAMClient({ ...MOCK, endpoint: moto.endpoint });
      const UserName = 'doctor';
      await iam.send(new CreateUserCommand({ UserName }));
      const { AccessKey } = await iam.send(new CreateAccessKeyCommand({ UserName }));
      const keys = { AWS_ACCESS_KEY_ID: AccessKey?.AccessKeyId, AWS_SECRET_ACCESS_KEY: AccessKey?.SecretAccessKey };
      const tellMoto = (body: string) => fetch(`${moto.endpoint}/moto-api/reset-auth`, { method: 'POST', body });
      const examineWith = async (rights: readonly string[]): Promise<ReportLine[]> => {
        await tellMoto('inf');
        const statement = { Effect: 'Allow', Action: rights, Resource: '*' };
        const PolicyDocument = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
        await iam.send(new PutUserPolicyCommand({ UserName, PolicyName: 'doctor', PolicyDocument }));
        await tellMoto('0');
        const { stdout } = await examine('staging', ['--json'], keys);
        return (JSON.parse(stdout) as { checks: ReportLine[] }).checks.filter(({ level }) => level !== 'ok');
      };
      try {
        expect(await examineWith(AFTER_UP_RIGHTS)).toEqual([]);
        for (const right of AFTER_UP_RIGHTS) {
          const found = await examineWith([...AFTER_UP_RIGHTS.filter((one) => one !== right), 'iam:GetUser']);
          expect(found).toMatchObject([
            { level: 'warning', check: 'load balancer', found: `not checked: the caller lacks the right ${right}` },
          ]);
        }
      } finally {
        await tellMoto('inf');
        iam.destroy();
      }
    },
    STATE_MS,
  );
});

function getPod(name: string, { placed = true }: State): V1Pod {
  const gpu = { 'nvidia.com/gpu': '1' };
  return {
    metadata: { name, labels: LABELS },
    spec: {
      tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
      ...(placed ? {} : { nodeSelector: { 'not-there': 'true' } }),
      initContainers: [{ name: 'agent', image: 'node', restartPolicy: 'Always' }],
      containers: [{ name: 'triton', image: IMAGE, resources: { limits: gpu, requests: gpu } }],
    },
  };
}

const getEvent = (name: string, message: string): CoreV1Event => ({
  metadata: { name: `${name}.1`, namespace: NAMESPACE },
  involvedObject: { kind: 'Pod', name, namespace: NAMESPACE, fieldPath: 'spec.containers{triton}' },
  reason: 'Pulled',
  message,
  type: 'Normal',
});

/** Answers like Triton and its agent, on one port. Real ones run on no simulated pod. */
async function servePod(state: () => State, scratch: Scratch): Promise<{ port: number }> {
  const server = createServer(({ url }, response) => {
    const { gpus = 1, isSilent = false, state: reported = {} } = state();
    if (isSilent) {
      response.destroy();
      return;
    }
    const models = [{ name: 'resnet', versions: [1], device: 'GPU', asked: null }];
    const json: Record<string, unknown> = {
      '/v1/state': { problem: null, models, ...reported },
    };
    if (url === '/metrics') {
      response.end(`nv_gpu_memory_total_bytes{gpu_uuid="GPU-0"} 24\n`.repeat(gpus));
      return;
    }
    response.writeHead(json[url ?? ''] === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(json[url ?? ''] ?? {}));
  });
  const listening = await listenOnLoopback(server);
  scratch.defer(() => listening.stop());
  return { port: listening.port };
}

/** @returns its host name */
async function createLoadBalancer({ env }: Moto): Promise<string> {
  const options = { ...MOCK, endpoint: env['AWS_ENDPOINT_URL'] as string };
  const [ec2, elb] = [new EC2Client(options), new ElasticLoadBalancingV2Client(options)];
  const { Vpc } = await ec2.send(new CreateVpcCommand({ CidrBlock: '10.0.0.0/16' }));
  const VpcId = Vpc?.VpcId ?? '';
  const { Subnet } = await ec2.send(new CreateSubnetCommand({ VpcId, CidrBlock: '10.0.0.0/24' }));
  const balancer = new CreateLoadBalancerCommand({
    Name: 'triton',
    Type: 'network',
    Subnets: [Subnet?.SubnetId ?? ''],
  });
  const { LoadBalancers: [made] = [] } = await elb.send(balancer);
  const group = new CreateTargetGroupCommand({ Name: 'triton', Protocol: 'TCP', Port: 8000, VpcId, TargetType: 'ip' });
  const TargetGroupArn = (await elb.send(group)).TargetGroups?.[0]?.TargetGroupArn ?? '';
  const forward = { Type: 'forward' as const, TargetGroupArn };
  const LoadBalancerArn = made?.LoadBalancerArn;
  await elb.send(
    new CreateListenerCommand({ LoadBalancerArn, Port: 8000, Protocol: 'TCP', DefaultActions: [forward] }),
  );
  await elb.send(new RegisterTargetsCommand({ TargetGroupArn, Targets: [{ Id: ADDRESS, Port: 8000 }] }));
  ec2.destroy();
  elb.destroy();
  return made?.DNSName ?? '';
}
