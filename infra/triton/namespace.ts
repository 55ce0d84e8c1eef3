import { Namespace } from '@pulumi/kubernetes/core/v1';
import * as pulumi from '@pulumi/pulumi';
import { labels } from './names';
import type { TritonSettings } from './settings';

/** PodSecurity: pods that ask for more than the strictest profile allows are refused, and whoever applies them is told. */
const RESTRICTED = Object.fromEntries(
  ['enforce', 'audit', 'warn'].flatMap((mode) => [
    [`pod-security.kubernetes.io/${mode}`, 'restricted'],
    [`pod-security.kubernetes.io/${mode}-version`, 'latest'],
  ]),
);

/** The namespace of the pods; its name comes when it is there. */
export function createNamespace(
  settings: TritonSettings,
  options: pulumi.CustomResourceOptions,
): pulumi.Output<string> {
  const { name, namespace } = settings;
  if (!namespace.create) return pulumi.output(namespace.name);
  const metadata = { name: namespace.name, labels: { ...labels(name), ...RESTRICTED } };
  return new Namespace(name, { metadata }, options).metadata.name;
}
