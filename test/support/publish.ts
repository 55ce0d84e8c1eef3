import { publish, type Published, type PublishOptions } from '../../src/publish/publish';
import type { AgentSource } from '../../src/publish/agent-client';
import { fixedReplicas, type Replica, type ReplicaSource } from '../../src/publish/cluster/source';
import type { ReleaseOptions } from '../../src/publish/options';
import type { RepositoryLocation } from '../../src/release/location';
import type { S3Store } from '../../src/s3/store';

/** A hand-written configuration for an unknown backend, so that files may have any content. */
export const CONFIG = 'backend: "anything"\nversion_policy { specific { versions: [1] } }\n';
export const ONE_MODEL = { 'a/config.pbtxt': CONFIG, 'a/1/weights.bin': 'a' };
export const TWO_MODELS = { ...ONE_MODEL, 'b/config.pbtxt': CONFIG, 'b/1/weights.bin': 'b' };

/** Pods as a publisher finds them. */
export const sourceOf = (pods: readonly { replica: Replica }[]): ReplicaSource =>
  fixedReplicas(pods.map(({ replica }) => replica));

/** Publishes to a location with options that tests share. */
export function publisher(store: S3Store, location: RepositoryLocation, repository: string, agents?: AgentSource) {
  const options = (): ReleaseOptions => ({
    ...{ store, location, agents },
    untried: agents === undefined,
    loadTimeoutMs: 60_000,
    waitMs: 60_000,
  });
  return {
    options,
    /** Publishes; `uploaded` are the keys in the order in which their last byte was sent. */
    publish: async (more: Partial<PublishOptions> = {}): Promise<Published & { uploaded: string[] }> => {
      const uploaded: string[] = [];
      const onBytes = (key: string): void => {
        const at = uploaded.indexOf(key);
        if (at >= 0) uploaded.splice(at, 1);
        uploaded.push(key);
      };
      return { ...(await publish({ ...options(), repository, onBytes, ...more })), uploaded };
    },
  };
}
