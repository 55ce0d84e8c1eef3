import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoreV1Api, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { isHealthy } from '../../src/local/process/health-check';
import { freePorts } from '../../src/local/process/ports';
import { ensureKubernetes } from '../../tools/toolchain/kubernetes';
import { ADMIN, ClusterProcesses, startApiServer, type Access } from './api-server';
import type { Scratch } from './temp-dir';

const NODE = 'node-0';

export interface TestClusterOptions {
  /** Targets of port-forwards: name of the pod -> port on loopback, for all ports of the pod or by port of the pod. */
  targets: Readonly<Record<string, number | Readonly<Record<number, number>>>>;
  /** Users besides "admin", who have only granted permissions. */
  users?: readonly string[];
  /** Default: serving. */
  namespace?: string;
}

export interface TestPod {
  name: string;
  labels?: Record<string, string>;
  /** Default: true. */
  ready?: boolean;
  /** Container port with the name "http". Default: no named port. */
  httpPort?: number;
  /** Default: Running. */
  phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed';
}

/** A rule of a Role. */
export interface TestRule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}

/** A Kubernetes API with one simulated node, on which tests set the status of pods. */
export interface TestCluster {
  namespace: string;
  server: string;
  /** Text of a kubeconfig, with a context named after the user. */
  kubeconfig(user?: string): string;
  /** Binds a user to a Role in the namespace. */
  grant(user: string, rules: TestRule[]): Promise<void>;
  createPod(pod: TestPod): Promise<void>;
  setReady(name: string, ready: boolean): Promise<void>;
  /** With a grace period the pod stays in Terminating, because no kubelet removes it. */
  deletePod(name: string, graceSeconds?: number): Promise<void>;
}

/**
 * A real kube-apiserver on a real etcd, and KWOK as the node through which the API server forwards ports. There is no
 * scheduler and no controller: TestCluster binds pods to the node and sets their status.
 */
export async function testKubernetes(scratch: Scratch, options: TestClusterOptions): Promise<TestCluster> {
  const programs = await ensureKubernetes();
  const namespace = options.namespace ?? 'serving';
  const processes = await ClusterProcesses.in(scratch);
  // No controller creates the service accounts that pods would need.
  const flags = ['--disable-admission-plugins=ServiceAccount'];
  const access = await startApiServer(processes, { programs, flags, users: options.users ?? [] });

  const [port] = (await freePorts(1)) as [number];
  const config = join(processes.directory, 'kwok.yaml');
  writeFileSync(config, kwokConfiguration(options.targets, namespace, port));
  const args = [
    `--config=${config}`,
    `--kubeconfig=${access.kubeconfigFile()}`,
    '--manage-all-nodes=true',
    `--server-address=127.0.0.1:${port}`,
  ];
  await processes.start({ name: 'kwok', command: programs.kwok, args }, () =>
    isHealthy(`http://127.0.0.1:${port}/healthz`),
  );
  return ApiCluster.prepare(access, namespace);
}

/** KWOK's configuration: the status of the node, and targets of port-forwards. JSON documents, which are valid YAML. */
function kwokConfiguration(targets: TestClusterOptions['targets'], namespace: string, kubeletPort: number): string {
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
  const target = (port: number): object => ({ target: { address: '127.0.0.1', port } });
  const forwards = Object.entries(targets).map(([pod, ports]) => ({
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'PortForward',
    metadata: { name: pod, namespace },
    spec: {
      forwards:
        typeof ports === 'number'
          ? [target(ports)]
          : Object.entries(ports).map(([from, to]) => ({ ports: [Number(from)], ...target(to) })),
    },
  }));
  return [stage, ...forwards].map((document) => JSON.stringify(document)).join('\n---\n');
}

class ApiCluster implements TestCluster {
  private constructor(
    private readonly access: Access,
    readonly namespace: string,
    private readonly core: CoreV1Api,
    private readonly rbac: RbacAuthorizationV1Api,
  ) {}

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
