import { ProblemList } from '../scripts/lib/model/problems';
import { clusterSettings } from './settings/cluster';
import { CONFIG_FIELDS, parseValues, type ConfigValues } from './settings/config';
import { checkPools } from './settings/gpu-node-pools';
import { modelRepositorySettings, publisherSettings } from './settings/model-repository';
import { readFields } from './settings/reader';
import { pulumiConfig, type ConfigSource } from './settings/source';
import { tritonSettings } from './settings/triton';
import type { Settings } from './settings/types';

export type { ConfigSource } from './settings/source';
export type * from './settings/types';

const HINT = 'every key is described in Pulumi.yaml; set one with "pulumi config set KEY VALUE"';

/**
 * Everything that the configuration says, checked.
 * @throws UserError that tells all that is wrong with it
 */
export function readSettings(source: ConfigSource = pulumiConfig()): Settings {
  const problems = new ProblemList(`Pulumi.${source.stack}.yaml`);
  const given = parseValues(source, problems);
  const values = readFields(CONFIG_FIELDS, given, problems);
  const refuse = (): void => problems.refuse(`${problems.file} cannot be used as it is`, HINT);
  refuse();
  const cluster = clusterSettings(values, source.stack, problems);
  const region = regionOf(values, source.region, problems);
  const settings: Settings = {
    stack: source.stack,
    region,
    protect: values.protect,
    cluster,
    gpuNodePools: values.gpuNodePools,
    modelRepository: modelRepositorySettings(values, region, problems),
    publisher: publisherSettings(values),
    triton: tritonSettings(values, problems),
    renderManifestsTo: values.renderManifestsTo,
  };
  checkPools(settings, values.modelGpus, problems);
  refuse();
  return settings;
}

/** Where nothing is made, the region of the bucket will do. */
function regionOf(values: ConfigValues, awsRegion: string | undefined, problems: ProblemList): string {
  if (awsRegion !== undefined) return awsRegion;
  if (values.cluster === 'create' || values.bucketRegion === undefined) {
    problems.add('aws:region', 'is missing', {
      allowed: 'an AWS region, "us-east-1"',
      hint: 'pulumi config set aws:region us-east-1',
    });
  }
  return values.bucketRegion ?? '';
}
