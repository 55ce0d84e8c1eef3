import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type {
  AppsV1Api,
  AuthorizationV1Api,
  CoreV1Api,
  KubeConfig,
  KubernetesObject,
  KubernetesObjectApi,
  NetworkingV1Api,
  PolicyV1Api,
  V1Pod,
  V1Taint,
} from '@kubernetes/client-node';
import { dump, loadAll } from 'js-yaml';
import { isHealthy } from '../../src/local/process/health-check';
import { freePorts } from '../../src/local/process/ports';
import { ensureControlPlane } from '../../tools/toolchain/kubernetes';
import { ClusterProcesses, startApiServer, type Access, type ApiServerOptions } from './api-server';
import { defineStubCrds } from './stub-crds';
import type { Scratch } from './temp-dir';
import { until } from './wait-for';

export interface TestNode {
  name: string;
  /** Capacity `nvidia.com/gpu`. Default: a node without GPUs. */
  gpus?: number;
  labels?: Record<string, string>;
  taints?: V1Taint[];
  /** Default: us-east-1a. */
  zone?: string;
}

/** The typed clients of the cluster, as its administrator. */
export interface Clients {
  apps: AppsV1Api;
  authorization: AuthorizationV1Api;
  core: CoreV1Api;
  networking: NetworkingV1Api;
  objects: KubernetesObjectApi;
  policy: PolicyV1Api;
}

/**
 * A real control plane: etcd, kube-apiserver with PodSecurity and RBAC, kube-controller-manager and kube-scheduler.
 * KWOK simulates the nodes: pods are scheduled and counted like real ones, but run nothing.
 */
export class ControlPlane {
  private constructor(
    readonly access: Access,
    readonly processes: ClusterProcesses,
    readonly client: Clients,
    readonly config: KubeConfig,
  ) {}

  /**
   * Builds missing programs, once, and starts the control plane, which stops when the scratch folder is cleaned.
   * @param options `groups` and `users` have the users besides "admin"; `simulatePods: false` leaves the status of pods to the test
   */
  static async start(
    scratch: Scratch,
    { simulatePods = true, ...options }: Pick<ApiServerOptions, 'groups' | 'users'> & { simulatePods?: boolean } = {},
  ): Promise<ControlPlane> {
    const programs = await ensureControlPlane();
    const processes = await ClusterProcesses.in(scratch);
    const access = await startApiServer(processes, { programs, ...options });
    const kubeconfig = `--kubeconfig=${access.kubeconfigFile()}`;
    // Single instances, so without leader election, and without ports for metrics.
    const alone = [kubeconfig, '--leader-elect=false', '--secure-port=0'];
    await processes.start({
      name: 'kube-controller-manager',
      command: programs.controllerManager,
      args: [
        ...alone,
        `--root-ca-file=${access.certificateFile}`,
        `--service-account-private-key-file=${access.serviceAccountKeyFile}`,
      ],
    });
    await processes.start({ name: 'kube-scheduler', command: programs.scheduler, args: alone });

    const config = await loadConfig(access);
    const plane = new ControlPlane(access, processes, await connect(config), config);
    // For commands in containers, logs and port-forwards. Objects, not a file, because pod names are not known in advance.
    await defineStubCrds(plane, ['kwok.x-k8s.io']);
    await plane.startKwok(programs.kwok, kubeconfig, simulatePods ? ['Node', 'Pod'] : ['Node']);
    // Pods are rejected until their namespace has a service account.
    await until('the controllers work', async () => {
      const { items } = await plane.client.core.listNamespacedServiceAccount({ namespace: 'default' });
      return items.length > 0;
    });
    return plane;
  }

  private async startKwok(command: string, kubeconfig: string, simulated: readonly string[]): Promise<void> {
    const [port] = (await freePorts(1)) as [number];
    const config = join(this.processes.directory, 'kwok.yaml');
    const stages = (loadAll(readFileSync(join(__dirname, 'kwok-stages.yaml'), 'utf8')) as Stage[]).filter(({ spec }) =>
      simulated.includes(spec.resourceRef.kind),
    );
    writeFileSync(config, stages.map((stage) => dump(stage)).join('---\n'));
    const args = [
      kubeconfig,
      `--config=${config}`,
      '--enable-crds=Exec,Logs,PortForward',
      '--manage-all-nodes=true',
      '--node-lease-duration-seconds=40',
      '--node-ip=127.0.0.1',
      `--node-port=${port}`,
      `--server-address=127.0.0.1:${port}`,
    ];
    // Commands in containers find programs on the PATH that the test has set.
    const kwok = { name: 'kwok', command, args, env: process.env };
    await this.processes.start(kwok, () => isHealthy(`http://127.0.0.1:${port}/healthz`));
  }

  async addNode(node: TestNode): Promise<void> {
    const resources = {
      cpu: '64',
      memory: '256Gi',
      'ephemeral-storage': '500Gi',
      pods: '110',
      ...(node.gpus === undefined ? {} : { 'nvidia.com/gpu': String(node.gpus) }),
    };
    const labels = {
      'kubernetes.io/arch': 'amd64',
      'kubernetes.io/hostname': node.name,
      'kubernetes.io/os': 'linux',
      'topology.kubernetes.io/zone': node.zone ?? 'us-east-1a',
      ...node.labels,
    };
    await this.client.core.createNode({
      body: {
        metadata: { name: node.name, labels },
        spec: { taints: node.taints ?? [] },
        status: { capacity: resources, allocatable: resources },
      },
    });
    await until(`node ${node.name} is ready`, async () => {
      const { status } = await this.client.core.readNode({ name: node.name });
      return status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
    });
  }

  /** Adds a node for Triton: one GPU, and the taint of GPU nodes. */
  addGpuNode(name: string, node: Partial<TestNode> = {}): Promise<void> {
    return this.addNode({
      name,
      gpus: 1,
      taints: [{ key: 'nvidia.com/gpu', value: 'true', effect: 'NoSchedule' }],
      ...node,
    });
  }

  /** Lets all port-forwards to a pod lead to a port on loopback. */
  async forwardPod(namespace: string, pod: string, port: number): Promise<void> {
    await this.client.objects.create({
      apiVersion: 'kwok.x-k8s.io/v1alpha1',
      kind: 'PortForward',
      metadata: { name: pod, namespace },
      spec: { forwards: [{ target: { address: '127.0.0.1', port } }] },
    } as KubernetesObject);
  }

  async pods(namespace: string, labelSelector?: string): Promise<V1Pod[]> {
    const filter = labelSelector === undefined ? {} : { labelSelector };
    return (await this.client.core.listNamespacedPod({ namespace, ...filter })).items;
  }

  async readyPods(namespace: string, labelSelector?: string): Promise<V1Pod[]> {
    return (await this.pods(namespace, labelSelector)).filter(isServing);
  }
}

/** Whether a Service sends requests to the pod. */
export function isServing(pod: V1Pod): boolean {
  return (
    pod.metadata?.deletionTimestamp === undefined &&
    pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
  );
}

async function loadConfig(access: Access): Promise<KubeConfig> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromString(access.kubeconfig());
  return config;
}

async function connect(config: KubeConfig): Promise<Clients> {
  const api = await import('@kubernetes/client-node');
  return {
    apps: config.makeApiClient(api.AppsV1Api),
    authorization: config.makeApiClient(api.AuthorizationV1Api),
    core: config.makeApiClient(api.CoreV1Api),
    networking: config.makeApiClient(api.NetworkingV1Api),
    objects: api.KubernetesObjectApi.makeApiClient(config),
    policy: config.makeApiClient(api.PolicyV1Api),
  };
}

/** Part of one of KWOK's rules for the status of an object. */
interface Stage {
  spec: { resourceRef: { kind: string } };
}
