import * as pulumi from '@pulumi/pulumi';

/** A stack's configuration as it was given. */
export interface ConfigSource {
  /** Name of the stack. */
  stack: string;
  /** `aws:region`; undefined where it was not given. */
  region: string | undefined;
  /** Tags of `aws:defaultTags`. */
  tags: Readonly<Record<string, string>>;
  /** The project's own keys, without its name. */
  values: Readonly<Record<string, unknown>>;
  /** Keys whose values are encrypted in the stack file. */
  encrypted: ReadonlySet<string>;
}

/** The tags in the value of `aws:defaultTags`. AWS's own provider reports what is wrong with it. */
export function tagsOf(defaultTags: unknown): Record<string, string> {
  const { tags } = (defaultTags ?? {}) as { tags?: Record<string, unknown> };
  return Object.fromEntries(Object.entries(tags ?? {}).map(([key, value]) => [key, String(value)]));
}

/** Part of the SDK, and left out of its declarations. */
const { isConfigSecret } = pulumi.runtime as unknown as { isConfigSecret: (key: string) => boolean };

/** The configuration of the program that Pulumi runs now. */
export function pulumiConfig(): ConfigSource {
  const project = `${pulumi.getProject()}:`;
  const all = Object.entries(pulumi.runtime.allConfig()).filter(([key]) => key.startsWith(project));
  const aws = new pulumi.Config('aws');
  return {
    stack: pulumi.getStack(),
    region: aws.get('region') ?? process.env['AWS_REGION'],
    tags: tagsOf(aws.getObject('defaultTags')),
    values: Object.fromEntries(all.map(([key, text]) => [key.slice(project.length), text])),
    encrypted: new Set(all.filter(([key]) => isConfigSecret(key)).map(([key]) => key.slice(project.length))),
  };
}
