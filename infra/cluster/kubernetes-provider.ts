import { createHash } from 'node:crypto';
import { Provider } from '@pulumi/kubernetes/provider';
import * as pulumi from '@pulumi/pulumi';
import { getServer, readKubeconfig } from './kubeconfig';

export interface ClusterAccess {
  kubeconfigText: pulumi.Output<string>;
  /** The same for the provider. Default: `kubeconfigText`. */
  providerKubeconfigText?: pulumi.Output<string>;
  /** Identifies the cluster. Default: the address of its API server in the kubeconfig. */
  clusterIdentifier?: pulumi.Input<string> | undefined;
  /** Texts that identify the cluster and are known before an update. Earlier updates may have used each but the first. */
  names: readonly [string, ...string[]];
}

export function existingAccess(
  kubeconfig: string | undefined,
  context: string | undefined,
  clusterIdentifier: string | undefined,
): ClusterAccess {
  const text = readKubeconfig(kubeconfig, context);
  const address = getServer(text) ?? '';
  return {
    kubeconfigText: pulumi.secret(text),
    clusterIdentifier,
    names: clusterIdentifier === undefined ? [address] : [clusterIdentifier, address],
  };
}

/**
 * The provider for Kubernetes objects. Each cluster has a provider of its own: Pulumi replaces the objects of a provider
 * only in the update that replaces the provider. If that update fails half way, the next one would take the objects that
 * are left for objects of the new cluster, and delete the old cluster with them.
 */
export function kubernetesProvider(access: ClusterAccess): Provider {
  const [name, ...otherNames] = access.names.map(providerName) as [string, ...string[]];
  return new Provider(
    name,
    { kubeconfig: access.providerKubeconfigText ?? access.kubeconfigText, clusterIdentifier: access.clusterIdentifier },
    { aliases: otherNames.map((other) => ({ name: other })) },
  );
}

/** A digest, because the name of a cluster may contain that of the stack. */
const providerName = (cluster: string): string =>
  `kubernetes-${createHash('sha256').update(cluster).digest('hex').slice(0, 8)}`;
