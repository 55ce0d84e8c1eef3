import { resolve } from 'node:path';
import { Provider } from '@pulumi/kubernetes/provider';
import * as pulumi from '@pulumi/pulumi';
import { paths } from '../../src/core/paths';
import { readKubeconfig } from './kubeconfig';

/** How a cluster is reached. */
export interface ClusterAccess {
  /** Text of a kubeconfig: secret. */
  kubeconfigText: pulumi.Output<string>;
  /** What tells the cluster from another one. Default: its server, as the kubeconfig names it. */
  clusterIdentifier?: pulumi.Input<string>;
}

/** A cluster that is there. */
export function existingAccess(kubeconfig: string | undefined, context: string | undefined): ClusterAccess {
  return { kubeconfigText: pulumi.secret(readKubeconfig(kubeconfig, context)) };
}

/**
 * The provider of what is in the cluster.
 * @param access undefined only with `renderTo`
 * @param renderTo folder for the objects as YAML, instead of a cluster
 */
export function kubernetesProvider(
  name: string,
  access: ClusterAccess | undefined,
  renderTo: string | undefined,
): Provider {
  if (renderTo !== undefined) {
    return new Provider(`${name}-manifests`, { renderYamlToDirectory: resolve(paths.root, renderTo) });
  }
  if (access === undefined) throw new Error(`${name} has no cluster to apply objects to`);
  const { clusterIdentifier } = access;
  return new Provider(`${name}-kubernetes`, {
    kubeconfig: access.kubeconfigText,
    ...(clusterIdentifier === undefined ? {} : { clusterIdentifier }),
  });
}
