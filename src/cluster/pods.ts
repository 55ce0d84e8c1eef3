/** Triton's HTTP port, if neither the caller nor the pod names another. */
const DEFAULT_PORT = 8000;
const HTTP_PORT_NAME = 'http';

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
      port: port ?? httpPort(pod) ?? DEFAULT_PORT,
      ready: pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false,
      hasAgent: pod.spec?.initContainers?.some(({ name }) => name === agent) ?? false,
      started: pod.status?.containerStatuses?.some(({ state }) => state?.running !== undefined) ?? false,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function hasEnded(pod: ApiPod): boolean {
  return pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded';
}

function httpPort(pod: ApiPod): number | undefined {
  const ports = pod.spec?.containers.flatMap((container) => container.ports ?? []) ?? [];
  return ports.find(({ name }) => name === HTTP_PORT_NAME)?.containerPort;
}
