import * as pulumi from '@pulumi/pulumi';

/** A stack's configuration as it was given. */
export interface ConfigSource {
  /** Name of the stack. */
  stack: string;
  /** `aws:region`; undefined where it was not given. */
  region: string | undefined;
  /** The project's own keys, without its name. */
  values: Readonly<Record<string, unknown>>;
  /** Keys whose values are encrypted in the stack file. */
  encrypted: ReadonlySet<string>;
}

/** Part of the SDK, and left out of its declarations. */
const { isConfigSecret } = pulumi.runtime as unknown as { isConfigSecret: (key: string) => boolean };

/** The configuration of the program that Pulumi runs now. */
export function pulumiConfig(): ConfigSource {
  const project = `${pulumi.getProject()}:`;
  const all = Object.entries(pulumi.runtime.allConfig()).filter(([key]) => key.startsWith(project));
  return {
    stack: pulumi.getStack(),
    region: new pulumi.Config('aws').get('region') ?? process.env['AWS_REGION'],
    values: Object.fromEntries(all.map(([key, text]) => [key.slice(project.length), text])),
    encrypted: new Set(all.filter(([key]) => isConfigSecret(key)).map(([key]) => key.slice(project.length))),
  };
}
