import { Secret } from '@pulumi/kubernetes/core/v1';
import * as pulumi from '@pulumi/pulumi';
import { CONTROL_KEY, CONTROL_KEY_ALLOWED } from '../../scripts/lib/triton/control-key';
import type { SecretNames } from './environment';
import { labels } from './names';
import type { Part } from './part';

/** Keys that pods read. Pulumi names these Secrets anew when they change, so that pods with the new ones are rolled out. */
export function createSecrets(part: Part): SecretNames {
  const { credentials, modelControl } = part.settings;
  return {
    ...(credentials.kind === 'static-keys'
      ? {
          credentials: createSecret(part, 'credentials', {
            accessKeyId: credentials.accessKeyId,
            secretAccessKey: credentials.secretAccessKey,
          }),
        }
      : {}),
    ...(modelControl === undefined
      ? {}
      : { modelControl: createSecret(part, 'model-control', { key: checkedKey(modelControl.key) }) }),
  };
}

/** @param what goes into the name */
export function createSecret(
  { settings, namespace, options }: Part,
  what: string,
  data: Record<string, pulumi.Input<string>>,
): pulumi.Output<string> {
  return new Secret(
    `${settings.name}-${what}`,
    { metadata: { namespace, labels: labels(settings.name) }, stringData: pulumi.secret(data) },
    options,
  ).metadata.name;
}

function checkedKey(key: pulumi.Input<string>): pulumi.Output<string> {
  return pulumi.secret(key).apply(requireControlKey);
}

/** @throws RunError that does not show the key */
export function requireControlKey(key: string): string {
  if (CONTROL_KEY.test(key)) return key;
  throw new pulumi.RunError(
    `modelControl.key: ${key.length} characters that are not shown; allowed: ${CONTROL_KEY_ALLOWED}` +
      '\n  -> make one with "openssl rand -hex 24"',
  );
}
