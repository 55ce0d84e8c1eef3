import type * as pulumi from '@pulumi/pulumi';
import { AGENT_PORTS } from '../../src/release/agent-api';
import type { ServerSettings } from './settings';

export const TRITON_CONTAINER = 'triton';

/** Ports of the container and its Services. Probes, policies and the publisher use these names. */
export const PORTS = { http: 8000, grpc: 8001, metrics: 8002 } as const;

/** The port of the agent's container for probes and Prometheus. Its control port is on loopback of the pod only. */
export const AGENT_PORT = { name: 'agent', containerPort: AGENT_PORTS.read } as const;

/**
 * UID of the pods. A number, because runAsNonRoot cannot verify a name. Not 1000, the user of Triton's image, because
 * this UID may exist on the node, where a process that escapes the container would have its rights. The files of the
 * image are readable for all users.
 */
export const USER_ID = 10_001;

/** Labels that select the pods of one component. They cannot be changed in an existing Deployment. */
export function selectorLabels(name: string): Record<string, string> {
  return { 'app.kubernetes.io/name': 'triton', 'app.kubernetes.io/instance': name };
}

export function labels(name: string): Record<string, string> {
  return {
    ...selectorLabels(name),
    'app.kubernetes.io/component': 'inference-server',
    'app.kubernetes.io/managed-by': 'pulumi',
  };
}

/**
 * Annotation with which an update takes back fields that an autoscaler or a person on call ("kubectl scale", "edit", "patch",
 * "rollout undo") changed. Without it, Kubernetes rejects the next change of such a field.
 */
export const TAKES_BACK = { 'pulumi.com/patchForce': 'true' };

/** Label selector of the pods of one component, in the format of kubectl. */
export function podSelector(name: string): string {
  return Object.entries(selectorLabels(name))
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** The label with its name that Kubernetes sets on each namespace. */
export const NAMESPACE_LABEL = 'kubernetes.io/metadata.name';

/** Arguments of every function that creates a part of TritonServer. */
export interface ComponentContext {
  settings: ServerSettings;
  /** Namespace of the objects; the output resolves after the namespace was created. */
  namespace: pulumi.Input<string>;
  /** `parent: this` of the component. */
  options: pulumi.CustomResourceOptions;
}
