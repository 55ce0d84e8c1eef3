import { resolve } from 'node:path';
import { Provider } from '@pulumi/kubernetes/provider';
import * as pulumi from '@pulumi/pulumi';
import { paths } from '../../src/core/paths';
import { readKubeconfig } from './kubeconfig';

/** How to connect to a cluster. */
export interface ClusterAccess {
  /** Text of a kubeconfig, as a secret. */
  kubeconfigText: pulumi.Output<string>;
  /** The same for the provider. Default: `kubeconfigText`. */
  providerKubeconfigText?: pulumi.Output<string>;
  /** Identifies the cluster. Default: the address of its API server in the kubeconfig. */
  clusterIdentifier?: pulumi.Input<string> | undefined;
}

/** Access to an existing cluster. */
export function existingAccess(
  kubeconfig: string | undefined,
  context: string | undefined,
  clusterIdentifier: string | undefined,
): ClusterAccess {
  return { kubeconfigText: pulumi.secret(readKubeconfig(kubeconfig, context)), clusterIdentifier };
}

/**
 * The provider for Kubernetes objects.
 * @param access may be undefined only with `renderTo`
 * @param renderTo folder to write the objects to as YAML, instead of applying them to a cluster
 */
export function kubernetesProvider(
  access: ClusterAccess | undefined,
  renderTo: string | undefined,
  options: pulumi.ResourceOptions,
): Provider {
  if (renderTo !== undefined) {
    return new Provider('manifests', { renderYamlToDirectory: resolve(paths.root, renderTo) }, options);
  }
  if (access === undefined) throw new Error('the stack has neither a cluster nor a folder for its Kubernetes objects');
  return new Provider(
    'kubernetes',
    { kubeconfig: access.providerKubeconfigText ?? access.kubeconfigText, clusterIdentifier: access.clusterIdentifier },
    options,
  );
}
