import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import { HorizontalPodAutoscaler } from '@pulumi/kubernetes/autoscaling/v2';
import type { input } from '@pulumi/kubernetes/types';
import type * as pulumi from '@pulumi/pulumi';
import type { AutoscalingArgs } from './args';
import { labels, TAKES_BACK } from './names';
import type { ComponentContext } from './names';
import { loadSignals, scalingQuery } from './monitoring/load-signals';
import { seriesSelector } from './monitoring/monitoring';

type Behavior = input.autoscaling.v2.HorizontalPodAutoscalerBehavior;

/** How often KEDA queries Prometheus. */
const POLLING_SECONDS = 15;

/** @param target the name of the Deployment */
export function createAutoscaling(part: ComponentContext, target: pulumi.Input<string>): void {
  const { autoscaling } = part.settings;
  if (autoscaling === undefined) return;
  switch (autoscaling.kind) {
    case 'keda':
      return createScaledObject(part, autoscaling, target);
    case 'custom-metrics':
      return createAutoscaler(part, autoscaling, target);
    default:
      autoscaling.kind satisfies never;
  }
}

/**
 * Scales up immediately. Scales down late and one by one, because a pod that is needed again takes minutes to start.
 */
function behavior({ scaleDownAfterSeconds }: Required<AutoscalingArgs>): Behavior {
  return {
    scaleUp: { stabilizationWindowSeconds: 0, policies: [{ type: 'Percent', value: 100, periodSeconds: 60 }] },
    scaleDown: {
      stabilizationWindowSeconds: scaleDownAfterSeconds,
      policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }],
    },
  };
}

/**
 * KEDA names its HorizontalPodAutoscaler keda-hpa-NAME. This differs from the name of ours, so that the kind of the
 * autoscaler can change in one update.
 */
function createScaledObject(
  { settings, namespace, options }: ComponentContext,
  autoscaling: Required<AutoscalingArgs>,
  target: pulumi.Input<string>,
): void {
  const { name } = settings;
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
        advanced: { horizontalPodAutoscalerConfig: { behavior: behavior(autoscaling) } },
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

function createAutoscaler(
  { settings, namespace, options }: ComponentContext,
  autoscaling: Required<AutoscalingArgs>,
  target: pulumi.Input<string>,
): void {
  const { name } = settings;
  new HorizontalPodAutoscaler(
    `${name}-scaling`,
    {
      metadata: {
        name,
        namespace,
        labels: labels(name),
        // Without this annotation, KEDA rejects a ScaledObject while this object exists, so the kind could not change.
        annotations: { 'validations.keda.sh/hpa-ownership': 'false', ...TAKES_BACK },
      },
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: target },
        minReplicas: autoscaling.minReplicas,
        maxReplicas: autoscaling.maxReplicas,
        behavior: behavior(autoscaling),
        metrics: loadSignals(seriesSelector(settings), autoscaling).map(({ metric, goal }) => ({
          type: 'Pods',
          pods: { metric: { name: metric }, target: { type: 'AverageValue', averageValue: String(goal) } },
        })),
      },
    },
    options,
  );
}
