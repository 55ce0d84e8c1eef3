import { CONTROL_HEADER } from '../triton/control-key';
import { TritonHttpClient } from '../triton/http';

/** Environment variable with the key of servers whose model control API is guarded; before the stack's output. */
export const CONTROL_KEY_VARIABLE = 'TRITON_MODEL_CONTROL_KEY';

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
  /** The command that restarts it, where there is one. */
  restart?: string;
  /** What its model control API asks for, where that is guarded. */
  modelControlKey?: string;
}

/** Where the running servers are found. */
export interface ReplicaSource {
  /** For messages: `pods app=triton in namespace serving`. */
  describe(): string;
  /** Those there are now; may be called again and again. */
  list(): Promise<Replica[]>;
  close(): Promise<void>;
}

/** What a user does to restart a replica. */
export const restartOf = ({ name, restart }: Replica): string => restart ?? `restart the server at ${name}`;

/** To be closed by the caller. */
export function replicaClient({ url, modelControlKey }: Pick<Replica, 'url' | 'modelControlKey'>): TritonHttpClient {
  return new TritonHttpClient(
    url,
    modelControlKey === undefined ? {} : { headers: { [CONTROL_HEADER]: modelControlKey } },
  );
}

/** The same servers, whose model control API is guarded by a key. */
export function guardedReplicas(source: ReplicaSource, modelControlKey: string): ReplicaSource {
  return {
    describe: () => source.describe(),
    list: async () => (await source.list()).map((replica) => ({ ...replica, modelControlKey })),
    close: () => source.close(),
  };
}

/** Servers whose addresses the user gave. */
export function fixedReplicas(urls: readonly string[], modelControlKey?: string): ReplicaSource {
  const key = modelControlKey === undefined ? {} : { modelControlKey };
  const replicas = urls.map((url) => ({ name: url, url, ready: true, ...key }));
  return {
    describe: () => urls.join(', '),
    list: () => Promise.resolve(replicas),
    close: () => Promise.resolve(),
  };
}
