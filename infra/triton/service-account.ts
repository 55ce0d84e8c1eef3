import { ServiceAccount } from '@pulumi/kubernetes/core/v1';
import type * as pulumi from '@pulumi/pulumi';
import { labels } from './names';
import type { Part } from './part';

/**
 * The identity of the pods. Its own token is not mounted: Triton does not talk to Kubernetes. The token that AWS takes
 * for the role is another one, which EKS mounts because of the annotation.
 */
export function createServiceAccount({ settings, namespace, options }: Part): pulumi.Output<string> {
  const { name, credentials } = settings;
  const role =
    credentials.kind === 'role' ? { annotations: { 'eks.amazonaws.com/role-arn': credentials.roleArn } } : {};
  return new ServiceAccount(
    name,
    { metadata: { name, namespace, labels: labels(name), ...role }, automountServiceAccountToken: false },
    options,
  ).metadata.name;
}
