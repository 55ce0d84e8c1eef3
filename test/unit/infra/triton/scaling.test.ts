import { loadSignals, scalingQuery, type LoadSignal } from '../../../../infra/triton/monitoring/load-signals';
import { LABELS, render } from '../../../support/render';

/** What test/e2e/monitoring-stories.test.ts evaluates. */
const signals = (queueMilliseconds: number, instancesPerReplica: number): LoadSignal[] =>
  loadSignals({ namespace: 'triton', name: 'triton' }, { queueMilliseconds, instancesPerReplica });

/** For the limits that people on call set by hand. */
const TAKES_BACK = { 'pulumi.com/patchForce': 'true' };
const METADATA = { name: 'triton', namespace: 'triton', labels: LABELS };
const TARGET = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'triton' };

const BEHAVIOR = {
  scaleUp: { stabilizationWindowSeconds: 0, policies: [{ type: 'Percent', value: 100, periodSeconds: 60 }] },
  scaleDown: { stabilizationWindowSeconds: 600, policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] },
};

test('TritonServer without autoscaling creates no autoscaler', async () => {
  const { kinds } = await render();
  expect(kinds().filter((kind) => /Scale/.test(kind))).toEqual([]);
});

test('autoscaling creates a ScaledObject that queries Prometheus and keeps replicas without an answer', async () => {
  const { only } = await render({ autoscaling: { minReplicas: 2, maxReplicas: 8 } });
  const trigger = (signal: LoadSignal): object => ({
    type: 'prometheus',
    metricType: 'AverageValue',
    metadata: {
      serverAddress: 'http://prometheus-operated.monitoring.svc:9090',
      query: scalingQuery({ namespace: 'triton', name: 'triton' }, signal),
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
      advanced: { horizontalPodAutoscalerConfig: { behavior: BEHAVIOR } },
      triggers: signals(50, 1).map(trigger),
    },
  });
});

test('the ScaledObject has the configured values', async () => {
  const { only } = await render({
    autoscaling: {
      minReplicas: 1,
      maxReplicas: 3,
      queueMilliseconds: 200,
      instancesPerReplica: 4,
      prometheusUrl: 'http://prometheus.monitoring.svc:80',
    },
    monitoring: { namespace: 'elsewhere' },
  });
  const { spec } = only('ScaledObject') as { spec: { triggers: { metadata: Record<string, string> }[] } };
  const [queue, batches] = spec.triggers.map(({ metadata }) => metadata);
  expect(queue).toMatchObject({
    serverAddress: 'http://prometheus.monitoring.svc:80',
    threshold: '200',
  });
  expect(queue?.['query']).toMatch(/400 \/ \(1 \+ 200 \/ .*\[120s\]/);
  expect(batches).toMatchObject({ threshold: '450' });
  expect(batches?.['query']).toMatch(/900 \/ \(1 \+ 450 \/ .*\[120s\].*, 1800\)/);
});

test('prometheusUrl is in the namespace of monitoring by default', async () => {
  const { only } = await render({
    autoscaling: { minReplicas: 1, maxReplicas: 3 },
    monitoring: { namespace: 'elsewhere' },
  });
  expect(JSON.stringify(only('ScaledObject'))).toContain('"http://prometheus-operated.elsewhere.svc:9090"');
});
