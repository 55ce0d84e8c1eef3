import * as pulumi from '@pulumi/pulumi';
import { IDENTITY_KEYS, type IdentityValues } from './aws-identity';

/** The configuration of a stack before it is parsed. */
export interface ConfigSource {
  stack: string;
  /** `aws:region`; undefined if it is not set. */
  region: string | undefined;
  identity: IdentityValues;
  /** Tags of `aws:defaultTags`. */
  tags: Readonly<Record<string, string>>;
  /** The project's own keys, without its name. */
  values: Readonly<Record<string, unknown>>;
  /** What is encrypted in the stack file: keys, or the paths of members (`s3.secretAccessKey`) if they are known. */
  encrypted: ReadonlySet<string>;
}

/** The tags in the value of `aws:defaultTags`. Invalid values are reported by the AWS provider, not here. */
export function getTags(defaultTags: unknown): Record<string, string> {
  const { tags } = (defaultTags ?? {}) as { tags?: Record<string, unknown> };
  return Object.fromEntries(Object.entries(tags ?? {}).map(([key, value]) => [key, String(value)]));
}

/** The SDK exports this function but does not declare it. */
const { isConfigSecret } = pulumi.runtime as unknown as { isConfigSecret: (key: string) => boolean };

/** The configuration of the program that Pulumi is running. */
export function pulumiConfig(): ConfigSource {
  const project = `${pulumi.getProject()}:`;
  const all = Object.entries(pulumi.runtime.allConfig()).filter(([key]) => key.startsWith(project));
  const aws = new pulumi.Config('aws');
  return {
    stack: pulumi.getStack(),
    region: aws.get('region'),
    identity: Object.fromEntries(
      IDENTITY_KEYS.map((key) => [key, key === 'profile' ? aws.get(key) : aws.getObject(key)]),
    ),
    tags: getTags(aws.getObject('defaultTags')),
    values: Object.fromEntries(all.map(([key, text]) => [key.slice(project.length), text])),
    encrypted: new Set(all.filter(([key]) => isConfigSecret(key)).map(([key]) => key.slice(project.length))),
  };
}
