import type { ModelConfig } from './model-config';

/**
 * Returns the versions that Triton serves, ascending. Without a version_policy, Triton serves the newest one.
 * Versions of `specific` are returned even if they are missing; the rules refuse such a policy.
 */
export function servedVersions({ version_policy: policy }: ModelConfig, versions: readonly number[]): number[] {
  if (policy?.specific !== undefined) return ascending(policy.specific.versions ?? []);
  const there = ascending(versions);
  if (policy?.all !== undefined) return there;
  const newest = policy?.latest === undefined ? 1 : (policy.latest.num_versions ?? 0);
  return newest > 0 ? there.slice(-newest) : [];
}

/**
 * Returns the configuration with its served versions as `specific`, in place of `latest`, `all` or no version_policy.
 * Then a server that starts while another version is being uploaded does not load that version.
 * Without version folders the configuration is returned unchanged.
 */
export function withServedVersions(config: ModelConfig, versions: readonly number[]): ModelConfig {
  const served = servedVersions(config, versions);
  return served.length === 0 ? config : { ...config, version_policy: { specific: { versions: served } } };
}

const ascending = (versions: readonly number[]): number[] => [...new Set(versions)].sort((a, b) => a - b);
