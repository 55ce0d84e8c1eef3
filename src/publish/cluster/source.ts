/** One running replica: a Triton server with its agent. Its addresses are those of port-forwards, or the given ones. */
export interface Replica {
  /** Name for messages: that of the pod, or the given address. */
  name: string;
  /** Differs if the replica was recreated under the same name. */
  uid: string;
  /** The control API of its agent. */
  url: string;
  /** Triton's HTTP API. */
  tritonUrl: string;
  /** Whether it gets requests. Only such replicas are asked to try a release. */
  ready: boolean;
}

export interface ReplicaSource {
  /** For messages: `pods app=triton in namespace serving`. */
  describe(): string;
  /** The replicas that run now. May be called repeatedly. */
  list(): Promise<Replica[]>;
  close(): Promise<void>;
}

export function fixedReplicas(servers: readonly Pick<Replica, 'url' | 'tritonUrl'>[]): ReplicaSource {
  const replicas = servers.map((server) => ({
    ...{ name: server.tritonUrl, uid: server.tritonUrl, ready: true },
    ...server,
  }));
  return {
    describe: () => replicas.map(({ name }) => name).join(', '),
    list: () => Promise.resolve(replicas),
    close: () => Promise.resolve(),
  };
}
