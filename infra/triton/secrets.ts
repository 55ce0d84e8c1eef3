import { Secret } from '@pulumi/kubernetes/core/v1';
import * as pulumi from '@pulumi/pulumi';
import type { SecretNames } from './server-container';
import { labels } from './names';
import type { ComponentContext } from './names';

/**
 * Creates the Secrets of the pods. Pulumi gives a changed Secret a new name, which makes the Deployment roll out new
 * pods.
 */
export function createSecrets(part: ComponentContext): SecretNames {
  const { credentials, secretEnvironment } = part.settings;
  const { accessKeyId, secretAccessKey } = credentials;
  return {
    credentials:
      accessKeyId === undefined || secretAccessKey === undefined
        ? undefined
        : createSecret(part, 'credentials', { accessKeyId, secretAccessKey }),
    environment:
      Object.keys(secretEnvironment).length === 0 ? undefined : createSecret(part, 'environment', secretEnvironment),
  };
}

/** @param what suffix of the name */
function createSecret(
  { settings, namespace, options }: ComponentContext,
  what: string,
  data: Record<string, pulumi.Input<string>>,
): pulumi.Output<string> {
  return new Secret(
    `${settings.name}-${what}`,
    { metadata: { namespace, labels: labels(settings.name) }, stringData: pulumi.secret(data) },
    options,
  ).metadata.name;
}
