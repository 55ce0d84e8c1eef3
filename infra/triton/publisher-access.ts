import { Role, RoleBinding } from '@pulumi/kubernetes/rbac/v1';
import { labels } from './names';
import type { Part } from './part';

/** What publishing does in the cluster: it finds the pods and forwards ports to them. */
const RULES = [
  { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
  // A port-forward over WebSocket is a GET, over SPDY a POST.
  { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] },
];

/** Lets the members of `publisherGroup` publish, in this namespace and nothing more. */
export function createPublisherAccess({ settings, namespace, options }: Part): void {
  const { publisherGroup } = settings;
  if (publisherGroup === undefined) return;
  const name = `${settings.name}-publisher`;
  const metadata = { name, namespace, labels: labels(settings.name) };
  const role = new Role(name, { metadata, rules: RULES }, options);
  new RoleBinding(
    name,
    {
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: role.metadata.name },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: publisherGroup }],
    },
    options,
  );
}
