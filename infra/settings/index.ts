import { describe, ProblemList } from '../../src/core/problems';
import { regionFault } from '../region';
import { clusterSettings } from './cluster';
import { CONFIG_FIELDS, parseValues, type ConfigValues } from './config';
import { checkPools } from './gpu-node-pools';
import { modelRepositorySettings, publisherSettings } from './model-repository';
import { readFields, refuseUnknown } from './reader';
import { pulumiConfig, type ConfigSource } from './source';
import { tritonSettings } from './triton';
import type { Settings } from './types';

export type { ConfigSource } from './source';
export type * from './types';

const HINT =
  'Pulumi.yaml describes every setting; "pulumi config set KEY VALUE" sets one, and "pulumi config set --secret KEY" a secret one';

/**
 * Reads and validates the configuration of a stack.
 * @throws UserError with all problems
 */
export function readSettings(source: ConfigSource = pulumiConfig()): Settings {
  const problems = new ProblemList(`Pulumi.${source.stack}.yaml`);
  const given = parseValues(source, problems);
  refuseUnknown(Object.keys(given), Object.keys(CONFIG_FIELDS), problems, '');
  const wrongValues = new ProblemList(problems.file);
  const values = readFields(CONFIG_FIELDS, known(given), wrongValues);
  problems.problems.push(...wrongValues.problems);
  const refuse = (): void => problems.refuse(`${problems.file} has invalid settings`, HINT);
  // Contradictions between values can be checked only if each value is valid by itself.
  if (wrongValues.problems.length > 0) refuse();
  const region = getRegion(values, source.region, problems);
  const cluster = clusterSettings(values, source, problems);
  const settings: Settings = {
    stack: source.stack,
    region,
    tags: source.tags,
    protect: values.protect,
    cluster,
    gpuNodePools: values.gpuNodePools,
    modelRepository: modelRepositorySettings(values, region, problems),
    publisher: publisherSettings(values, problems),
    triton: tritonSettings(values, source.encrypted, problems),
  };
  checkPools(settings, problems);
  refuse();
  return settings;
}

const known = (given: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(given).filter(([key]) => key in CONFIG_FIELDS));

/** Region of the stack. If nothing is created in AWS, the region of the bucket is sufficient. */
function getRegion(values: ConfigValues, awsRegion: string | undefined, problems: ProblemList): string {
  // An S3 API other than AWS's may use any names for regions.
  const bucketRegion = values.s3Endpoint === undefined ? values.bucketRegion : undefined;
  for (const [key, name] of [['aws:region', awsRegion] as const, ['bucketRegion', bucketRegion] as const]) {
    const fault = name === undefined ? undefined : regionFault(name, values.availabilityZones);
    if (fault === undefined) continue;
    problems.add(key, `is ${describe(name)}`, {
      allowed: 'an AWS region, "us-east-1"',
      hint: fault.meant === undefined ? undefined : `did you mean ${fault.meant}?`,
    });
  }
  if (awsRegion !== undefined) return awsRegion;
  if (values.cluster === 'create' || values.bucketRegion === undefined) {
    problems.add('aws:region', 'is missing', {
      allowed: 'an AWS region, "us-east-1"',
      // AWS_REGION differs between machines, and another region would mean other resources.
      hint: `pulumi config set aws:region ${process.env['AWS_REGION'] ?? 'us-east-1'}`,
    });
  }
  return values.bucketRegion ?? '';
}
