/** Port of Triton's HTTP API, if neither the caller nor the pod names another. */
const DEFAULT_PORT = 8000;

/** The fields of a pod that are used. */
export interface ApiPod {
  metadata?: { name?: string; uid?: string; deletionTimestamp?: Date };
  spec?: {
    containers: { ports?: { name?: string; containerPort: number }[] }[];
  };
  status?: {
    phase?: string;
    conditions?: { type: string; status: string }[];
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
}

/** The pods that count as replicas, sorted by name. Terminating and terminated pods do not count. */
export function servingPods(pods: readonly ApiPod[], port?: number): ServingPod[] {
  return pods
    .filter((pod) => pod.metadata?.deletionTimestamp === undefined && !hasEnded(pod))
    .map((pod) => ({
      name: pod.metadata?.name ?? '',
      uid: pod.metadata?.uid ?? '',
      port: port ?? getHttpPort(pod),
      ready: pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false,
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function hasEnded(pod: ApiPod): boolean {
  return pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded';
}

function getHttpPort(pod: ApiPod): number {
  const ports = pod.spec?.containers.flatMap((container) => container.ports ?? []) ?? [];
  return ports.find(({ name }) => name === 'http')?.containerPort ?? DEFAULT_PORT;
}
