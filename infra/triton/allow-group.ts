import { Role, RoleBinding } from '@pulumi/kubernetes/rbac/v1';
import type { input } from '@pulumi/kubernetes/types';
import { labels } from './names';
import type { Part } from './part';

const API_GROUP = 'rbac.authorization.k8s.io';

/**
 * Lets the members of a Kubernetes group do something in the namespace.
 * @param what goes into the name of the Role and its binding
 */
export function allowGroup(
  { settings, namespace, options }: Part,
  what: string,
  group: string,
  rules: input.rbac.v1.PolicyRule[],
): void {
  const name = `${settings.name}-${what}`;
  const metadata = { name, namespace, labels: labels(settings.name) };
  const role = new Role(name, { metadata, rules }, options);
  new RoleBinding(
    name,
    {
      metadata,
      roleRef: { apiGroup: API_GROUP, kind: 'Role', name: role.metadata.name },
      subjects: [{ apiGroup: API_GROUP, kind: 'Group', name: group }],
    },
    options,
  );
}
