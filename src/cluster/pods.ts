/** Triton's ports by the names of container ports, if neither the caller nor the pod names others. */
const DEFAULT_PORTS = { http: 8000, grpc: 8001 } as const;

/** The fields of a pod that are used. */
export interface ApiPod {
  metadata?: { name?: string; uid?: string; deletionTimestamp?: Date };
  spec?: {
    initContainers?: { name: string }[];
    containers: { ports?: { name?: string; containerPort: number }[] }[];
  };
  status?: {
    phase?: string;
    conditions?: { type: string; status: string }[];
    containerStatuses?: { state?: { running?: object } }[];
  };
}

/** A pod that serves or is starting. */
export interface ServingPod {
  name: string;
  /** A pod that is recreated under the same name has another uid. */
  uid: string;
  /** Its HTTP port. */
  port: number;
  grpcPort: number;
  ready: boolean;
  /** Whether it has the container of an agent. */
  hasAgent: boolean;
  /** Whether at least one of its containers runs. */
  started: boolean;
}

/**
 * The pods that count as replicas, sorted by name. Terminating and terminated pods do not count.
 * @param agent name of the container of an agent, which is an init container that goes on running
 */
export function servingPods(pods: readonly ApiPod[], port?: number, agent?: string): ServingPod[] {
  return pods
    .filter((pod) => pod.metadata?.deletionTimestamp === undefined && !hasEnded(pod))
    .map((pod) => ({
      name: pod.metadata?.name ?? '',
      uid: pod.metadata?.uid ?? '',
      port: port ?? getPort(pod, 'http'),
      grpcPort: getPort(pod, 'grpc'),
      ready: pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false,
      hasAgent: pod.spec?.initContainers?.some(({ name }) => name === agent) ?? false,
      started: pod.status?.containerStatuses?.some(({ state }) => state?.running !== undefined) ?? false,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function hasEnded(pod: ApiPod): boolean {
  return pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded';
}

function getPort(pod: ApiPod, name: keyof typeof DEFAULT_PORTS): number {
  const ports = pod.spec?.containers.flatMap((container) => container.ports ?? []) ?? [];
  return ports.find((port) => port.name === name)?.containerPort ?? DEFAULT_PORTS[name];
}
