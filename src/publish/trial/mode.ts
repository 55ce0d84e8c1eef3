import { UsageError, UserError } from '../../core/errors';
import { getRestart, type ReplicaSource } from '../../cluster/source';
import { FORMAT } from '../../release/format';
import { formatLocation, headKey, type RepositoryLocation } from '../../release/location';
import type { S3Store } from '../../s3/store';
import type { AgentSource } from './agent-client';

/** How a repository is published if its replicas have agents. */
export interface AgentMode {
  /** Undefined if no replicas were given. */
  agents: AgentSource | undefined;
  /** Whether the repository is still one that publishers changed under a lock. */
  migrate: boolean;
  /** Set if pods without an agent still run: then nothing is published but the migration. */
  plain: string[];
}

/**
 * | replicas                     | head.json | way to publish                                       |
 * | ---------------------------- | --------- | ---------------------------------------------------- |
 * | all pods have an agent       | any       | through the agents; of another format, migrated first |
 * | some pods have an agent      | any       | none, until the roll-out is over                      |
 * | pods or servers without one  | format 3  | none                                                 |
 * | the same                     | other     | directly                                             |
 * | no pods, or none were given  | format 3  | through agents, untried                              |
 * | the same                     | other     | directly                                             |
 *
 * @returns undefined for the direct way
 * @throws UserError if there is none
 */
export async function findMode(
  store: S3Store,
  location: RepositoryLocation,
  replicas: ReplicaSource | undefined,
): Promise<AgentMode | undefined> {
  const [format, found] = await Promise.all([readFormat(store, location), replicas?.list() ?? []]);
  const withAgent = found.filter(({ agentUrl }) => agentUrl !== undefined);
  const plain = found.filter(({ agentUrl }) => agentUrl === undefined);
  if (withAgent.length === 0 && format !== FORMAT) return undefined;
  if (withAgent.length === 0 && plain[0] !== undefined) {
    const isPod = plain[0].uid !== undefined;
    throw new UserError(
      `${formatLocation(location)} is published through agents, and ${plain.map(({ name }) => name).join(', ')} ${plain.length === 1 ? 'has' : 'have'} none`,
      {
        hint: isPod
          ? 'wait until the roll-out of pods with an agent is over, or set "agent" in the settings of the stack'
          : 'publish with --stack, --selector, or --agent if this server has an agent; to have it load the current release, ' +
            `${getRestart(plain[0])}, or publish to another prefix for servers without an agent`,
      },
    );
  }
  return {
    agents: replicas === undefined ? undefined : getAgents(replicas),
    migrate: format !== undefined && format !== FORMAT,
    plain: plain.map(({ name }) => name),
  };
}

/** The error if pods with and without an agent run. */
export const mixedPods = (plain: readonly string[]): UsageError =>
  new UsageError(`these pods have no agent yet: ${plain.join(', ')}; the others have one`, {
    hint: 'wait until the roll-out of the Deployment is over, then run the command again; nothing was published',
  });

/** The format of head.json; undefined if it is missing. What cannot be read is reported by its reader. */
export async function readFormat(store: S3Store, location: RepositoryLocation): Promise<unknown> {
  const found = await store.get(headKey(location));
  if (found === undefined) return undefined;
  try {
    return (JSON.parse(found.body.toString('utf8')) as { format?: unknown }).format ?? null;
  } catch {
    return null;
  }
}

/** The agents of those replicas that have one. */
export const getAgents = (replicas: ReplicaSource): AgentSource => ({
  describe: () => replicas.describe(),
  list: async () =>
    (await replicas.list()).flatMap(({ name, uid = name, agentUrl, ready }) =>
      agentUrl === undefined ? [] : [{ name, uid, url: agentUrl, ready }],
    ),
});
