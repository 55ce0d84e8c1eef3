import { ControlClient, type ControlAddress } from '../triton/control-client';

/** Environment variable with the key of a guarded model control API, for servers without an agent. */
export const PUBLISHER_CONTROL_KEY_VARIABLE = 'TRITON_MODEL_CONTROL_KEY';

/** One running Triton server. Its addresses are those of port-forwards, or the given ones. */
export interface Replica extends ControlAddress {
  /** Name for messages: that of the pod, or the given address. */
  name: string;
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
export const replicaClient = (server: ControlAddress): ControlClient => new ControlClient(server);

/** Replicas at known addresses. */
export function fixedReplicas(
  servers: readonly (ControlAddress & Pick<Replica, 'agentUrl'>)[],
  more: Pick<Replica, 'restart' | 'log'> = {},
): ReplicaSource {
  const replicas = servers.map((server) => ({ name: server.url, ready: true, ...server, ...more }));
  return {
    describe: () => servers.map(({ url }) => url).join(', '),
    list: () => Promise.resolve(replicas),
    close: () => Promise.resolve(),
  };
}
