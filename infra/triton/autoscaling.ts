import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import type { input } from '@pulumi/kubernetes/types';
import type * as pulumi from '@pulumi/pulumi';
import { labels, TAKES_BACK } from './names';
import type { ComponentContext } from './names';
import { loadSignals, scalingQuery } from './monitoring/load-signals';
import { seriesSelector } from './monitoring/monitoring';

type Behavior = input.autoscaling.v2.HorizontalPodAutoscalerBehavior;

/** How often KEDA queries Prometheus. */
const POLLING_SECONDS = 15;

/** Scales up immediately. Scales down late and one by one, because a pod that is needed again takes minutes to start. */
const BEHAVIOR: Behavior = {
  scaleUp: { stabilizationWindowSeconds: 0, policies: [{ type: 'Percent', value: 100, periodSeconds: 60 }] },
  scaleDown: { stabilizationWindowSeconds: 600, policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] },
};

/**
 * Creates the ScaledObject of KEDA if there is `autoscaling`. KEDA names its HorizontalPodAutoscaler keda-hpa-NAME.
 * @param target the name of the Deployment
 */
export function createAutoscaling(
  { settings, namespace, options }: ComponentContext,
  target: pulumi.Input<string>,
): void {
  const { name, autoscaling } = settings;
  if (autoscaling === undefined) return;
  const of = seriesSelector(settings);
  new CustomResource(
    `${name}-scaling`,
    {
      apiVersion: 'keda.sh/v1alpha1',
      kind: 'ScaledObject',
      metadata: { name, namespace, labels: labels(name), annotations: TAKES_BACK },
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: target },
        minReplicaCount: autoscaling.minReplicas,
        maxReplicaCount: autoscaling.maxReplicas,
        pollingInterval: POLLING_SECONDS,
        // Without Prometheus the load is unknown, so no pods are removed.
        fallback: { failureThreshold: 4, replicas: autoscaling.minReplicas, behavior: 'currentReplicasIfHigher' },
        advanced: { horizontalPodAutoscalerConfig: { behavior: BEHAVIOR } },
        triggers: loadSignals(of, autoscaling).map((signal) => ({
          type: 'prometheus',
          metricType: 'AverageValue',
          metadata: {
            serverAddress: autoscaling.prometheusUrl,
            query: scalingQuery(of, signal),
            threshold: String(signal.goal),
            // An empty result is an error.
            ignoreNullValues: 'false',
          },
        })),
      },
    },
    options,
  );
}
