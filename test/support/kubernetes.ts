/* eslint-disable @typescript-eslint/no-unsafe-class-instance-assignment -- the API's classes are types of plain objects */
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { join } from 'node:path';
import type { CoreV1Api, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { ManagedProcess } from '../../scripts/lib/managed-process';
import { freePorts } from '../../scripts/lib/ports';
import { Progress } from '../../scripts/lib/progress';
import { ensureKubernetes } from '../../scripts/lib/toolchain/kubernetes';
import { ensurePython } from '../../scripts/lib/toolchain/python';
import type { Scratch } from './scratch';

const START_TIMEOUT_MS = 60_000;
const STOP_GRACE_MS = 5000;
const NODE = 'node-0';
const ADMIN = 'admin';

export interface TestClusterOptions {
  /** Where a port-forward to each pod leads: name of the pod -> port on loopback where something listens. */
  targets: Readonly<Record<string, number>>;
  /** Users besides "admin"; they may do what is granted. */
  users?: readonly string[];
  /** Default: serving. */
  namespace?: string;
}

export interface TestPod {
  name: string;
  labels?: Record<string, string>;
  /** Default: true. */
  ready?: boolean;
  /** The container port that is named "http"; none is named when left out. */
  httpPort?: number;
  /** Default: Running. */
  phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed';
}

/** What a Role permits. */
export interface TestRule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}

/** A Kubernetes API with one simulated node, whose pods are what tests say they are. */
export interface TestCluster {
  namespace: string;
  server: string;
  /** Text of a kubeconfig, with a context named after the user. */
  kubeconfig(user?: string): string;
  /** Gives a user a Role in the namespace. */
  grant(user: string, rules: TestRule[]): Promise<void>;
  createPod(pod: TestPod): Promise<void>;
  setReady(name: string, ready: boolean): Promise<void>;
  /** With a grace period the pod stays, terminating: nothing here ends it. */
  deletePod(name: string, graceSeconds?: number): Promise<void>;
}

/**
 * A real kube-apiserver on a real etcd, and KWOK as the node that the API server forwards ports through. There is no
 * scheduler and no controller: pods are bound to the node and given their status here.
 */
export async function testKubernetes(scratch: Scratch, options: TestClusterOptions): Promise<TestCluster> {
  const programs = await ensureKubernetes();
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  const namespace = options.namespace ?? 'serving';
  const directory = join(scratch.directory, 'kubernetes');
  mkdirSync(directory, { recursive: true });
  const [etcdPort, peerPort, apiPort, kubeletPort] = (await freePorts(4)) as [number, number, number, number];
  const start = (name: string, command: string, args: string[]): ManagedProcess => {
    const started = new ManagedProcess({ name, command, args, logFile: join(directory, `${name}.log`), python });
    scratch.defer(() => started.stop(STOP_GRACE_MS));
    return started;
  };

  const etcd = start('etcd', programs.etcd, etcdArguments(directory, etcdPort, peerPort));
  await etcd.untilReady(
    () => answers(`http://127.0.0.1:${etcdPort}/health`),
    START_TIMEOUT_MS,
    () => etcd.stop(STOP_GRACE_MS),
  );
  const tokens = new Map([ADMIN, ...(options.users ?? [])].map((user) => [user, `${user}-token-of-a-test`]));
  const server = `https://127.0.0.1:${apiPort}`;
  const access = new Access(server, join(directory, 'certificates', 'apiserver.crt'), tokens);
  const api = start('kube-apiserver', programs.apiServer, apiServerArguments(directory, etcdPort, apiPort, tokens));
  await api.untilReady(
    () => access.isReady(),
    START_TIMEOUT_MS,
    () => api.stop(STOP_GRACE_MS),
  );

  writeFileSync(join(directory, 'kwok.yaml'), kwokConfiguration(options.targets, namespace, kubeletPort));
  writeFileSync(join(directory, 'kubeconfig'), access.kubeconfig(ADMIN));
  const kwok = start('kwok', programs.kwok, [
    `--config=${join(directory, 'kwok.yaml')}`,
    `--kubeconfig=${join(directory, 'kubeconfig')}`,
    '--manage-all-nodes=true',
    `--server-address=127.0.0.1:${kubeletPort}`,
  ]);
  await kwok.untilReady(
    () => answers(`http://127.0.0.1:${kubeletPort}/healthz`),
    START_TIMEOUT_MS,
    () => kwok.stop(STOP_GRACE_MS),
  );
  return ApiCluster.prepare(access, namespace);
}

function etcdArguments(directory: string, port: number, peerPort: number): string[] {
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  return [
    `--data-dir=${join(directory, 'etcd')}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    '--unsafe-no-fsync',
  ];
}

function apiServerArguments(
  directory: string,
  etcdPort: number,
  port: number,
  tokens: ReadonlyMap<string, string>,
): string[] {
  const key = join(directory, 'service-account.pem');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const tokenFile = join(directory, 'tokens.csv');
  const rows = [...tokens].map(([user, token]) => `${token},${user},${user}${user === ADMIN ? ',system:masters' : ''}`);
  writeFileSync(tokenFile, `${rows.join('\n')}\n`, { mode: 0o600 });
  return [
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    // Its own certificate is made there.
    `--cert-dir=${join(directory, 'certificates')}`,
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    '--service-cluster-ip-range=10.0.0.0/24',
    `--token-auth-file=${tokenFile}`,
    '--authorization-mode=RBAC',
    // No controller makes the service accounts that pods would need.
    '--disable-admission-plugins=ServiceAccount',
    // Nobody looks for the API server inside of the cluster, and loopback would be refused as its address there.
    '--endpoint-reconciler-type=none',
    // The node's name does not resolve.
    '--kubelet-preferred-address-types=InternalIP',
  ];
}

/** JSON documents, which are YAML: how the node gets its status, and where port-forwards lead. */
function kwokConfiguration(targets: Readonly<Record<string, number>>, namespace: string, kubeletPort: number): string {
  const nodeStatus = {
    addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
    daemonEndpoints: { kubeletEndpoint: { Port: kubeletPort } },
    conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'simulated' }],
  };
  const isNotReady = {
    key: '.status.conditions.[] | select( .type == "Ready" ) | .status',
    operator: 'NotIn',
    values: ['True'],
  };
  const stage = {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'Stage',
    metadata: { name: 'node-ready' },
    spec: {
      resourceRef: { apiGroup: 'v1', kind: 'Node' },
      selector: { matchExpressions: [isNotReady] },
      next: { statusTemplate: JSON.stringify(nodeStatus) },
    },
  };
  const forwards = Object.entries(targets).map(([pod, port]) => ({
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'PortForward',
    metadata: { name: pod, namespace },
    spec: { forwards: [{ target: { address: '127.0.0.1', port } }] },
  }));
  return [stage, ...forwards].map((document) => JSON.stringify(document)).join('\n---\n');
}

/** How users reach the API server. */
class Access {
  constructor(
    readonly server: string,
    private readonly certificateFile: string,
    private readonly tokens: ReadonlyMap<string, string>,
  ) {}

  kubeconfig(user: string): string {
    const certificate = readFileSync(this.certificateFile).toString('base64');
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server: this.server, 'certificate-authority-data': certificate } }],
      // A user that the API server does not know gets a token that it does not know.
      users: [{ name: user, user: { token: this.tokens.get(user) ?? 'unknown-token' } }],
      contexts: [{ name: user, context: { cluster: 'test', user } }],
      'current-context': user,
    });
  }

  async isReady(): Promise<boolean> {
    if (!existsSync(this.certificateFile)) return false;
    const headers = { authorization: `Bearer ${this.tokens.get(ADMIN)}` };
    const options = { headers, ca: readFileSync(this.certificateFile), timeout: 1000 };
    return new Promise((resolve) => {
      get(`${this.server}/readyz`, options, (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      })
        .on('timeout', () => resolve(false))
        .on('error', () => resolve(false));
    });
  }
}

class ApiCluster implements TestCluster {
  private constructor(
    private readonly access: Access,
    readonly namespace: string,
    private readonly core: CoreV1Api,
    private readonly rbac: RbacAuthorizationV1Api,
  ) {}

  /** Makes the node and the namespace. */
  static async prepare(access: Access, namespace: string): Promise<ApiCluster> {
    const { CoreV1Api, KubeConfig, RbacAuthorizationV1Api } = await import('@kubernetes/client-node');
    const config = new KubeConfig();
    config.loadFromString(access.kubeconfig(ADMIN));
    const core = config.makeApiClient(CoreV1Api);
    await core.createNamespace({ body: { metadata: { name: namespace } } });
    await core.createNode({ body: { metadata: { name: NODE } } });
    for (;;) {
      const { status } = await core.readNode({ name: NODE });
      if (status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return new ApiCluster(access, namespace, core, config.makeApiClient(RbacAuthorizationV1Api));
  }

  get server(): string {
    return this.access.server;
  }

  kubeconfig(user = ADMIN): string {
    return this.access.kubeconfig(user);
  }

  async grant(user: string, rules: TestRule[]): Promise<void> {
    const { namespace } = this;
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: user };
    const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }];
    await this.rbac.createNamespacedRole({ namespace, body: { metadata: { name: user }, rules } });
    await this.rbac.createNamespacedRoleBinding({ namespace, body: { metadata: { name: user }, roleRef, subjects } });
  }

  async createPod(pod: TestPod): Promise<void> {
    const ports = pod.httpPort === undefined ? [] : [{ name: 'http', containerPort: pod.httpPort }];
    const containers = [{ name: 'triton', image: 'triton', ports }];
    await this.core.createNamespacedPod({
      namespace: this.namespace,
      body: {
        metadata: { name: pod.name, labels: pod.labels ?? { app: 'triton' } },
        spec: { nodeName: NODE, containers },
      },
    });
    await this.setStatus(pod.name, pod.phase ?? 'Running', pod.ready ?? true);
  }

  setReady(name: string, ready: boolean): Promise<void> {
    return this.setStatus(name, 'Running', ready);
  }

  async deletePod(name: string, graceSeconds = 0): Promise<void> {
    await this.core.deleteNamespacedPod({ namespace: this.namespace, name, gracePeriodSeconds: graceSeconds });
  }

  private async setStatus(name: string, phase: string, ready: boolean): Promise<void> {
    const pod = await this.core.readNamespacedPod({ namespace: this.namespace, name });
    pod.status = { phase, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] };
    await this.core.replaceNamespacedPodStatus({ namespace: this.namespace, name, body: pod });
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(1000) })).ok;
  } catch {
    return false;
  }
}
