import type * as pulumi from '@pulumi/pulumi';
import type { TritonSettings } from './settings';

/** Ports of the container and of its Services, by the names that probes, policies and the publisher use. */
export const PORTS = { http: 8000, grpc: 8001, metrics: 8002 } as const;

/**
 * The user of the pods, by number: "not root" can be checked of a number only. Not the 1000 of Triton's image, which on
 * a node may be somebody: whatever gets out of the container is nobody there. What it needs of the image all may read.
 */
export const USER_ID = 10_001;

/** What selects the pods of one server. It cannot be changed in a Deployment that is there. */
export function selectorLabels(name: string): Record<string, string> {
  return { 'app.kubernetes.io/name': 'triton', 'app.kubernetes.io/instance': name };
}

/** What every object of one server carries. */
export function labels(name: string): Record<string, string> {
  return {
    ...selectorLabels(name),
    'app.kubernetes.io/component': 'inference-server',
    'app.kubernetes.io/managed-by': 'pulumi',
  };
}

/** The pods of one server, as kubectl and the publisher take it. */
export function podSelector(name: string): string {
  return Object.entries(selectorLabels(name))
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** The label that Kubernetes itself puts on each namespace. */
export const NAMESPACE_LABEL = 'kubernetes.io/metadata.name';

/** What every step of TritonServer works with. */
export interface Part {
  settings: TritonSettings;
  /** Where the objects go; the name of the namespace once it is there. */
  namespace: pulumi.Input<string>;
  /** `parent: this` of the component. */
  options: pulumi.CustomResourceOptions;
}
