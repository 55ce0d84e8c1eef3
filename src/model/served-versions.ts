import type { ModelConfig } from './model-config';

/**
 * The versions that Triton serves of those that are there, ascending.
 * Its default, without a version_policy, is the newest one. `specific` is taken at its word: the rules refuse one that
 * names what is not there.
 */
export function servedVersions({ version_policy: policy }: ModelConfig, versions: readonly number[]): number[] {
  if (policy?.specific !== undefined) return ascending(policy.specific.versions ?? []);
  const there = ascending(versions);
  if (policy?.all !== undefined) return there;
  const newest = policy?.latest === undefined ? 1 : (policy.latest.num_versions ?? 0);
  return newest > 0 ? there.slice(-newest) : [];
}

/**
 * The configuration that names its versions: what `latest`, `all` and no version_policy at all mean for the version
 * folders that are there, written as `specific`. A server that starts while a further version is being uploaded then
 * does not take that one up.
 * Without any version folder there is nothing to name, and the configuration comes back as it is.
 */
export function withServedVersions(config: ModelConfig, versions: readonly number[]): ModelConfig {
  const served = servedVersions(config, versions);
  return served.length === 0 ? config : { ...config, version_policy: { specific: { versions: served } } };
}

const ascending = (versions: readonly number[]): number[] => [...new Set(versions)].sort((a, b) => a - b);
