import { CONTROL_HEADER } from '../triton/control-key';
import { TritonHttpClient } from '../triton/http';

/** Environment variable with the key of a guarded model control API. It takes precedence over the stack's output. */
export const PUBLISHER_CONTROL_KEY_VARIABLE = 'TRITON_MODEL_CONTROL_KEY';

/** One running Triton server. */
export interface Replica {
  /** Name for messages: that of the pod, or the given address. */
  name: string;
  /** Its HTTP API: `http://127.0.0.1:PORT` of a port-forward, or the given address. */
  url: string;
  /** The control API of its agent, if it has one. */
  agentUrl?: string;
  /** False while a pod is starting. A starting server loads what the repository holds at that time. */
  ready: boolean;
  /** False for a pod whose server does not run yet, so it has not yet read what it will load. */
  started?: boolean;
  /** Differs if the replica was recreated under the same name. */
  uid?: string;
  /** The command that restarts it, if one exists. */
  restart?: string;
  /** Where its log is: a path, or the command that prints it. */
  log?: string;
  /** Key of its model control API, if that is guarded. */
  modelControlKey?: string;
}

/** Finds the running replicas. */
export interface ReplicaSource {
  /** For messages: `pods app=triton in namespace serving`. */
  describe(): string;
  /** The replicas that run now. May be called repeatedly. */
  list(): Promise<Replica[]>;
  close(): Promise<void>;
}

/** How the user restarts a replica. */
export const getRestart = ({ name, restart }: Replica): string => restart ?? `restart the server at ${name}`;

/** A client of the replica, which the caller must close. */
export function replicaClient({ url, modelControlKey }: Pick<Replica, 'url' | 'modelControlKey'>): TritonHttpClient {
  return new TritonHttpClient(
    url,
    modelControlKey === undefined ? {} : { headers: { [CONTROL_HEADER]: modelControlKey } },
  );
}

/** The replicas of `source`, whose model control API is guarded by a key. */
export function guardedReplicas(source: ReplicaSource, modelControlKey: string): ReplicaSource {
  return {
    describe: () => source.describe(),
    list: async () => (await source.list()).map((replica) => ({ ...replica, modelControlKey })),
    close: () => source.close(),
  };
}

/** Replicas at the addresses that the user gave. */
export function fixedReplicas(
  urls: readonly string[],
  modelControlKey?: string,
  more: Pick<Replica, 'restart' | 'log'> = {},
): ReplicaSource {
  const replicas = urls.map((url) => ({ name: url, url, ready: true, modelControlKey, ...more }));
  return {
    describe: () => urls.join(', '),
    list: () => Promise.resolve(replicas),
    close: () => Promise.resolve(),
  };
}
