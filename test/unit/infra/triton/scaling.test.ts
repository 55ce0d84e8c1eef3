import { loadSignals, scalingQuery, type LoadSignal } from '../../../../infra/triton/monitoring/load-signals';
import { LABELS, render } from '../../../support/render';

/** What test/e2e/monitoring-stories.test.ts evaluates. */
const signals = (queueMilliseconds: number, instancesPerReplica: number): LoadSignal[] =>
  loadSignals({ namespace: 'triton', name: 'triton', scrapeSeconds: 15 }, { queueMilliseconds, instancesPerReplica });

/** For the limits that people on call set by hand. */
const TAKES_BACK = { 'pulumi.com/patchForce': 'true' };
const METADATA = { name: 'triton', namespace: 'triton', labels: LABELS };
const TARGET = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'triton' };

const behavior = (seconds: number): object => ({
  scaleUp: { stabilizationWindowSeconds: 0, policies: [{ type: 'Percent', value: 100, periodSeconds: 60 }] },
  scaleDown: { stabilizationWindowSeconds: seconds, policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] },
});

test('TritonServer without autoscaling creates no autoscaler', async () => {
  const { kinds } = await render();
  expect(kinds().filter((kind) => /Scale/.test(kind))).toEqual([]);
});

test('keda creates a ScaledObject that queries Prometheus and keeps replicas without an answer', async () => {
  const { only, kinds } = await render({ autoscaling: { kind: 'keda', minReplicas: 2, maxReplicas: 8 } });
  expect(kinds()).not.toContain('HorizontalPodAutoscaler');
  const trigger = (signal: LoadSignal): object => ({
    type: 'prometheus',
    metricType: 'AverageValue',
    metadata: {
      serverAddress: 'http://prometheus-operated.monitoring.svc:9090',
      query: scalingQuery({ namespace: 'triton', name: 'triton', scrapeSeconds: 15 }, signal),
      threshold: String(signal.goal),
      ignoreNullValues: 'false',
    },
  });
  expect(only('ScaledObject')).toEqual({
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledObject',
    metadata: { ...METADATA, annotations: TAKES_BACK },
    spec: {
      scaleTargetRef: TARGET,
      minReplicaCount: 2,
      maxReplicaCount: 8,
      pollingInterval: 15,
      fallback: { failureThreshold: 4, replicas: 2, behavior: 'currentReplicasIfHigher' },
      advanced: { horizontalPodAutoscalerConfig: { behavior: behavior(600) } },
      triggers: signals(50, 1).map(trigger),
    },
  });
});

test('keda uses the configured values, and a longer rate window for rare scrapes', async () => {
  const { only } = await render({
    autoscaling: {
      kind: 'keda',
      minReplicas: 1,
      maxReplicas: 3,
      queueMilliseconds: 200,
      instancesPerReplica: 4,
      prometheusUrl: 'http://prometheus.monitoring.svc:80',
      scaleDownAfterSeconds: 1800,
    },
    monitoring: { scrapeSeconds: 60 },
    network: { monitoringNamespace: 'elsewhere' },
  });
  const { spec } = only('ScaledObject') as { spec: { triggers: { metadata: Record<string, string> }[] } };
  const [queue, batches] = spec.triggers.map(({ metadata }) => metadata);
  expect(queue).toMatchObject({
    serverAddress: 'http://prometheus.monitoring.svc:80',
    threshold: '200',
  });
  expect(queue?.['query']).toMatch(/400 \/ \(1 \+ 200 \/ .*\[240s\]/);
  expect(batches).toMatchObject({ threshold: '450' });
  expect(batches?.['query']).toMatch(/900 \/ \(1 \+ 450 \/ .*\[240s\].*, 1800\)/);
  expect(spec).toMatchObject({ advanced: { horizontalPodAutoscalerConfig: { behavior: behavior(1800) } } });
});

test('prometheusUrl is in monitoringNamespace by default', async () => {
  const { only } = await render({
    autoscaling: { kind: 'keda', minReplicas: 1, maxReplicas: 3 },
    network: { monitoringNamespace: 'elsewhere' },
  });
  expect(JSON.stringify(only('ScaledObject'))).toContain('"http://prometheus-operated.elsewhere.svc:9090"');
});

test('custom-metrics creates a HorizontalPodAutoscaler on the metrics of the recording rules', async () => {
  const { only, kinds } = await render({
    autoscaling: { kind: 'custom-metrics', minReplicas: 2, maxReplicas: 8, queueMilliseconds: 20 },
    monitoring: {},
  });
  expect(kinds()).not.toContain('ScaledObject');
  expect(only('HorizontalPodAutoscaler')).toEqual({
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { ...METADATA, annotations: { 'validations.keda.sh/hpa-ownership': 'false', ...TAKES_BACK } },
    spec: {
      scaleTargetRef: TARGET,
      minReplicas: 2,
      maxReplicas: 8,
      behavior: behavior(600),
      metrics: [
        {
          type: 'Pods',
          pods: {
            metric: { name: 'triton_queue_milliseconds' },
            target: { type: 'AverageValue', averageValue: '20' },
          },
        },
        {
          type: 'Pods',
          pods: {
            metric: { name: 'triton_batches_in_flight_percent' },
            target: { type: 'AverageValue', averageValue: '150' },
          },
        },
      ],
    },
  });
  const { groups } = only('PrometheusRule')['spec'] as { groups: { rules: { record?: string }[] }[] };
  expect(groups.flatMap(({ rules }) => rules.flatMap(({ record }) => record ?? []))).toEqual([
    'triton_queue_milliseconds',
    'triton_batches_in_flight_percent',
  ]);
});
