import type { ControlPlane } from './control-plane';

/** Kinds of operators that the control planes of these tests do not run. */
const KINDS: readonly (readonly [group: string, kind: string, version: string, scope?: 'Cluster'])[] = [
  ['eks.amazonaws.com', 'NodeClass', 'v1', 'Cluster'],
  ['karpenter.sh', 'NodeClaim', 'v1', 'Cluster'],
  ['karpenter.sh', 'NodePool', 'v1', 'Cluster'],
  ['keda.sh', 'ScaledObject', 'v1alpha1'],
  ...(['Exec', 'Logs', 'PortForward'] as const).map((kind) => ['kwok.x-k8s.io', kind, 'v1alpha1'] as const),
  ['monitoring.coreos.com', 'PodMonitor', 'v1'],
  ['monitoring.coreos.com', 'PrometheusRule', 'v1'],
  ['monitoring.coreos.com', 'ServiceMonitor', 'v1'],
];

/**
 * Makes the API server accept objects of these groups without validation. Tests with the real definitions verify that
 * they are valid.
 */
export async function defineStubCrds(plane: ControlPlane, groups: readonly string[]): Promise<void> {
  for (const [group, kind, version, scope = 'Namespaced'] of KINDS) {
    if (!groups.includes(group)) continue;
    const plural = kind.toLowerCase() + (kind.endsWith('ss') ? 'es' : kind.endsWith('s') ? '' : 's');
    const definition = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.${group}` },
      spec: {
        group,
        scope,
        names: { kind, plural },
        versions: [
          {
            name: version,
            served: true,
            storage: true,
            subresources: { status: {} },
            schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          },
        ],
      },
    };
    await plane.access.define(definition);
  }
}
