import { configText, withServedVersions } from '../../model';
import { configFromText } from '../../model/config-text';
import type { ModelConfig } from '../../model';
import { ProblemList } from '../../core/problems';
import { DIGEST_PARAMETER } from '../plan/desired';

/**
 * A config.pbtxt as a manifest stores it: without version_policy, which the agent adds, and without the digest of the
 * publisher, which would have Triton load every version again.
 */
export function manifestConfig(published: string): string {
  const config = { ...parse(published) };
  delete config.version_policy;
  const others = Object.entries(config.parameters ?? {}).filter(([name]) => name !== DIGEST_PARAMETER);
  const parameters = Object.fromEntries(others);
  if (others.length > 0) config.parameters = parameters;
  else delete config.parameters;
  return configText(config);
}

/** A config.pbtxt as a Triton reads it from the bucket, made from that of a manifest. */
export function publishedConfig(stored: string, served: readonly number[], digest: string): string {
  const config = parse(stored);
  const policy = served.length === 0 ? config : withServedVersions({ ...config, version_policy: { all: {} } }, served);
  return configText({ ...policy, parameters: { ...config.parameters, [DIGEST_PARAMETER]: { string_value: digest } } });
}

function parse(text: string): ModelConfig {
  const problems = new ProblemList('config.pbtxt');
  const config = configFromText(text, problems);
  problems.refuse('cannot read the configuration of a release');
  return config as ModelConfig;
}
