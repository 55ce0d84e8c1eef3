import { allowGroup } from './allow-group';
import type { Part } from './part';

/** What publishing does in the cluster: it finds the pods and forwards ports to them. */
const RULES = [
  { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
  // A port-forward over WebSocket is a GET, over SPDY a POST.
  { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] },
];

/** Lets the members of `publisherGroup` publish, in this namespace and nothing more. */
export function createPublisherAccess(part: Part): void {
  const { publisherGroup } = part.settings;
  if (publisherGroup !== undefined) allowGroup(part, 'publisher', publisherGroup, RULES);
}
