import { PodDisruptionBudget } from '@pulumi/kubernetes/policy/v1';
import { labels, selectorLabels } from './names';
import type { Part } from './part';

/**
 * How many pods may be missing when nodes are drained, replaced or consolidated. A number that may be missing, not one
 * that has to be there: a single replica would otherwise keep its node from ever being replaced.
 */
export function createDisruptionBudget({ settings, namespace, options }: Part): void {
  const { name, rollout } = settings;
  new PodDisruptionBudget(
    name,
    {
      metadata: { name, namespace, labels: labels(name) },
      spec: {
        maxUnavailable: rollout.maxUnavailable,
        selector: { matchLabels: selectorLabels(name) },
        // A pod that does not serve protects nobody.
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
    options,
  );
}
