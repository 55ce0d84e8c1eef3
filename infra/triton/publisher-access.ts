import { Role, RoleBinding } from '@pulumi/kubernetes/rbac/v1';
import type { input } from '@pulumi/kubernetes/types';
import { type ComponentContext, labels } from './names';
import { PUBLISHER_GROUP } from './settings';

/** The publisher finds the pods and forwards ports to them. */
const RULES = [
  { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
  // A port-forward over WebSocket is a GET, over SPDY a POST.
  { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] },
];

/** Lets the members of PUBLISHER_GROUP publish in this namespace only. */
export function createPublisherAccess(part: ComponentContext): void {
  createRoleBinding(part, 'publisher', PUBLISHER_GROUP, RULES);
}

const API_GROUP = 'rbac.authorization.k8s.io';

/**
 * Grants permissions in the namespace to a Kubernetes group.
 * @param what suffix of the names of the Role and its binding
 */
export function createRoleBinding(
  { settings, namespace, options }: ComponentContext,
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
