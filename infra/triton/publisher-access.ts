import { Role, RoleBinding } from '@pulumi/kubernetes/rbac/v1';
import { type ComponentContext, labels } from './names';
import { PUBLISHER_GROUP } from './settings';

const API_GROUP = 'rbac.authorization.k8s.io';

/** The publisher finds the pods and forwards ports to them. */
const RULES = [
  { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
  // A port-forward over WebSocket is a GET, over SPDY a POST.
  { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] },
];

/** Lets the members of PUBLISHER_GROUP publish in this namespace only. */
export function createPublisherAccess({ settings, namespace, options }: ComponentContext): void {
  const name = `${settings.name}-publisher`;
  const metadata = { name, namespace, labels: labels(settings.name) };
  const role = new Role(name, { metadata, rules: RULES }, options);
  const roleRef = { apiGroup: API_GROUP, kind: 'Role', name: role.metadata.name };
  const subjects = [{ apiGroup: API_GROUP, kind: 'Group', name: PUBLISHER_GROUP }];
  new RoleBinding(name, { metadata, roleRef, subjects }, options);
}
