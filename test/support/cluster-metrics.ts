import { createServer } from 'node:http';
import type { AutoscalingV2Api, V1Container } from '@kubernetes/client-node';
import { isServing, type ControlPlane } from './control-plane';
import { listenOnLoopback } from './loopback';
import type { Scratch } from './temp-dir';

type Labels = Readonly<Record<string, string>>;

/** Deployments count as older than they are, because some alerts ignore one that was just created. */
const AGE_SECONDS = 86_400;

/**
 * Serves the series of kube-state-metrics that the rules and the dashboard read, from the objects in a namespace, and series of
 * the kubelet about containers, of which only the memory is measured. kube-state-metrics itself is in no registry that the
 * tests use.
 * @param memoryOf bytes that the server of a pod uses
 * @returns the port
 */
export async function serveClusterMetrics(
  scratch: Scratch,
  plane: ControlPlane,
  namespace: string,
  memoryOf: (pod: string) => number,
): Promise<number> {
  const { AutoscalingV2Api } = await import('@kubernetes/client-node');
  const autoscaling = plane.config.makeApiClient(AutoscalingV2Api);
  const server = createServer((_, response) => {
    metrics(plane, autoscaling, namespace, memoryOf).then(
      (lines) => {
        // Prometheus rejects an answer without a type.
        response.setHeader('content-type', 'text/plain; version=0.0.4');
        response.end(lines.map((line) => `${line}\n`).join(''));
      },
      () => response.writeHead(500).end(),
    );
  });
  const { port, stop } = await listenOnLoopback(server);
  scratch.defer(stop);
  return port;
}

async function metrics(
  plane: ControlPlane,
  autoscaling: AutoscalingV2Api,
  namespace: string,
  memoryOf: (pod: string) => number,
): Promise<string[]> {
  const lines: string[] = [];
  const add = (metric: string, labels: Labels, value: number | undefined): void => {
    const text = Object.entries({ namespace, ...labels }).map(([name, one]) => `${name}=${JSON.stringify(one)}`);
    lines.push(`${metric}{${text.join(',')}} ${value ?? 0}`);
  };
  for (const { metadata, spec, status } of (await plane.client.apps.listNamespacedDeployment({ namespace })).items) {
    const labels = { deployment: metadata?.name ?? '' };
    add('kube_deployment_created', labels, (metadata?.creationTimestamp?.getTime() ?? 0) / 1000 - AGE_SECONDS);
    add('kube_deployment_metadata_generation', labels, metadata?.generation);
    add('kube_deployment_spec_replicas', labels, spec?.replicas);
    add('kube_deployment_status_replicas_available', labels, status?.availableReplicas);
    add('kube_deployment_status_replicas_ready', labels, status?.readyReplicas);
  }
  const autoscalers = await autoscaling.listNamespacedHorizontalPodAutoscaler({ namespace });
  for (const { metadata, spec, status } of autoscalers.items) {
    const labels = { horizontalpodautoscaler: metadata?.name ?? '' };
    add('kube_horizontalpodautoscaler_spec_max_replicas', labels, spec?.maxReplicas);
    add('kube_horizontalpodautoscaler_spec_min_replicas', labels, spec?.minReplicas);
    add('kube_horizontalpodautoscaler_status_desired_replicas', labels, status?.desiredReplicas);
    for (const { type, status: is } of status?.conditions ?? []) {
      const holds = { ...labels, condition: type, status: 'true' };
      add('kube_horizontalpodautoscaler_status_condition', holds, is === 'True' ? 1 : 0);
    }
    const addAverage = (part: string, metric?: string, value = '0'): void => {
      const more = { metric_name: metric ?? '', metric_target_type: 'average' };
      const average = value.endsWith('m') ? Number(value.slice(0, -1)) / 1000 : Number(value);
      add(`kube_horizontalpodautoscaler_${part}_target_metric`, { ...labels, ...more }, average);
    };
    // Resource metrics are not used.
    for (const { pods, external } of spec?.metrics ?? [])
      addAverage('spec', (pods ?? external)?.metric.name, (pods ?? external)?.target.averageValue);
    for (const { pods, external } of status?.currentMetrics ?? [])
      addAverage('status', (pods ?? external)?.metric.name, (pods ?? external)?.current.averageValue);
  }
  for (const pod of await plane.pods(namespace)) {
    const name = pod.metadata?.name ?? '';
    for (const container of isServing(pod) ? (pod.spec?.containers ?? []) : []) {
      const labels = { pod: name, container: container.name };
      add(
        'kube_pod_container_resource_limits',
        { ...labels, resource: 'memory', unit: 'byte' },
        memoryLimit(container),
      );
      add('container_memory_working_set_bytes', labels, memoryOf(name));
    }
  }
  return lines;
}

/** In bytes. The stack sets limits in GiB. */
function memoryLimit(container: V1Container): number {
  const [, gibibytes] = /^(\d+)Gi$/.exec(container.resources?.limits?.['memory'] ?? '') ?? [];
  if (gibibytes === undefined) throw new Error(`${container.name} has no memory limit in GiB`);
  return Number(gibibytes) * 2 ** 30;
}
