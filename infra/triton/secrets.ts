import { Secret } from '@pulumi/kubernetes/core/v1';
import * as pulumi from '@pulumi/pulumi';
import { CONTROL_KEY, CONTROL_KEY_ALLOWED, generateControlKey } from '../../src/triton/control-key';
import type { SecretNames } from './server-container';
import { labels } from './names';
import type { ComponentContext } from './names';

/** An imported Secret has this field, but the program omits it, for which Pulumi would replace the Secret. */
const SET_BY_KUBERNETES = ['type'];

/**
 * Creates the Secrets of the pods. Pulumi gives a changed Secret a new name, which makes the Deployment roll out new
 * pods.
 */
export function createSecrets(part: ComponentContext): {
  names: SecretNames;
  /** Undefined if the Secret with the key belongs to others. */
  modelControlKey: pulumi.Output<string> | undefined;
} {
  const { credentials, secretEnvironment } = part.settings;
  const modelControl = part.settings.modelControl?.secretName ?? createModelControlSecret(part);
  const isOurs = modelControl instanceof Secret;
  const names = {
    credentials:
      credentials.kind === 'static-keys'
        ? createSecret(part, 'credentials', {
            accessKeyId: credentials.accessKeyId,
            secretAccessKey: credentials.secretAccessKey,
          })
        : undefined,
    modelControl: isOurs ? modelControl.metadata.name : modelControl,
    environment:
      Object.keys(secretEnvironment).length === 0 ? undefined : createSecret(part, 'environment', secretEnvironment),
  };
  const modelControlKey = isOurs
    ? pulumi.secret(modelControl.data.apply(({ key }) => decode(key as string)))
    : undefined;
  return { names, modelControlKey };
}

/**
 * Uses the configured key, otherwise a random key. Each run of the program generates another random key, but Pulumi
 * ignores changes of an existing Secret. Both cases set `data`, so that a key stays in use after it was removed from
 * the configuration.
 */
function createModelControlSecret({ settings, namespace, options }: ComponentContext): Secret {
  const given = settings.modelControl?.key;
  const key = pulumi.secret(given ?? generateControlKey()).apply(requireControlKey);
  return new Secret(
    `${settings.name}-model-control`,
    {
      metadata: { namespace, labels: labels(settings.name) },
      data: key.apply((text) => ({ key: Buffer.from(text).toString('base64') })),
    },
    { ...options, ignoreChanges: given === undefined ? ['data', ...SET_BY_KUBERNETES] : SET_BY_KUBERNETES },
  );
}

const decode = (text: string): string => Buffer.from(text, 'base64').toString();

/** @param what suffix of the name */
export function createSecret(
  { settings, namespace, options }: ComponentContext,
  what: string,
  data: Record<string, pulumi.Input<string>>,
): pulumi.Output<string> {
  return new Secret(
    `${settings.name}-${what}`,
    { metadata: { namespace, labels: labels(settings.name) }, stringData: pulumi.secret(data) },
    { ...options, ignoreChanges: SET_BY_KUBERNETES },
  ).metadata.name;
}

/** @throws RunError that does not show the key */
export function requireControlKey(key: string): string {
  if (CONTROL_KEY.test(key)) return key;
  throw new pulumi.RunError(
    `modelControl.key: a text of ${key.length} characters, which is not shown; allowed: ${CONTROL_KEY_ALLOWED}` +
      '\n  -> create a key with "openssl rand -hex 24"',
  );
}
