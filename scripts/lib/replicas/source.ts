/** One running server. */
export interface Replica {
  /** Name of the pod, or the address that was given: what messages say. */
  name: string;
  /** Its HTTP API: `http://127.0.0.1:PORT` of a port-forward, or the address that was given. */
  url: string;
  /** False while a pod is starting; by itself it loads what the repository says then. */
  ready: boolean;
  /** False for a pod whose server does not run yet: what it loads, it has not read. */
  started?: boolean;
  /** Another one than before under the same name. */
  uid?: string;
}

/** Where the running servers are found. */
export interface ReplicaSource {
  /** For messages: `pods app=triton in namespace serving`. */
  describe(): string;
  /** Those there are now; may be called again and again. */
  list(): Promise<Replica[]>;
  close(): Promise<void>;
}

/** Servers whose addresses the user gave. */
export function fixedReplicas(urls: readonly string[]): ReplicaSource {
  const replicas = urls.map((url) => ({ name: url, url, ready: true }));
  return {
    describe: () => urls.join(', '),
    list: () => Promise.resolve(replicas),
    close: () => Promise.resolve(),
  };
}
