import { ProblemList } from '../../src/core/problems';
import { awsIdentity } from './aws-identity';
import { checkSecrets, CONFIG_FIELDS, parseValues } from './config';
import { checkPools } from './gpu-node-pools';
import { readFields, refuseUnknown } from './reader';
import { checkedRegion, checkRules, checkStackName } from './rules';
import { pulumiConfig, type ConfigSource } from './source';
import { tritonSettings } from './triton';
import type { Settings } from './types';

export type { ConfigSource } from './source';
export type * from './types';

const HINT =
  'Pulumi.yaml describes every setting; "pulumi config set --path KEY VALUE" sets one, and "pulumi config set --path --secret KEY VALUE" a secret one';

/**
 * Reads and validates the configuration of a stack.
 * @throws UserError with all problems
 */
export function readSettings(source: ConfigSource = pulumiConfig()): Settings {
  const problems = new ProblemList(`Pulumi.${source.stack}.yaml`);
  const given = parseValues(source);
  checkSecrets(given, source.encrypted, problems);
  refuseUnknown(Object.keys(given), CONFIG_FIELDS, problems, '');
  const wrongValues = new ProblemList(problems.file);
  const values = readFields(CONFIG_FIELDS, known(given), wrongValues);
  problems.problems.push(...wrongValues.problems);
  const refuse = (): void => problems.refuse(`${problems.file} has invalid settings`, HINT);
  // Contradictions between values can be checked only if each value is valid by itself.
  if (wrongValues.problems.length > 0) refuse();
  checkStackName(source.stack, values, problems);
  checkRules(values, source.region, problems);
  const encryptedKeys = new Set([...source.encrypted].map((path) => path.replace(/\..*/, '')));
  const settings: Settings = {
    ...values,
    stack: source.stack,
    region: checkedRegion(values, source.region, problems),
    tags: source.tags,
    clusterName: values.clusterName ?? `triton-${source.stack}`,
    identity: values.existingCluster === undefined ? awsIdentity(source.identity, problems) : {},
    triton: tritonSettings(values, encryptedKeys, problems),
  };
  checkPools(settings, problems);
  refuse();
  return settings;
}

const known = (given: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(given).filter(([key]) => Object.hasOwn(CONFIG_FIELDS, key)));
