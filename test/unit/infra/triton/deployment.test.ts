import { RAISE_STACK_LIMIT } from '../../../../src/triton/serving';
import { LABELS, SELECTOR, render, type Registered } from '../../../support/render';

const GUARD = 'model-repository,shared-memory,statistics,trace,logging:triton-model-control-key={control-key}';

interface Deployment {
  spec: {
    replicas: number;
    strategy: object;
    progressDeadlineSeconds: number;
    template: { spec: PodSpec };
  };
}

interface PodSpec extends Record<string, unknown> {
  containers: [Container];
  terminationGracePeriodSeconds: number;
}

interface Container extends Record<string, unknown> {
  args: string[];
  env: object[];
}

async function deployment(more?: Parameters<typeof render>[0]): Promise<{
  registered: Registered;
  manifest: Deployment;
  pod: PodSpec;
  container: Container;
}> {
  const { objects, only } = await render(more);
  const manifest = only('Deployment') as unknown as Deployment;
  const pod = manifest.spec.template.spec;
  const registered = objects.find(({ type }) => type.endsWith(':Deployment')) as Registered;
  return { registered, manifest, pod, container: pod.containers[0] };
}

/** A node 300, the agent's image 30, Triton's 300 and its start 120, loading and warm-up 300, counting as ready 10. */
const READY = 300 + 30 + 300 + 120 + 300 + 10;
const END = 15 + 30 + 15;

test('the Deployment with all defaults', async () => {
  const { registered, manifest } = await deployment();
  expect(registered.parent).toBe('triton-serving:index:TritonServer');
  expect(manifest).toEqual({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      name: 'triton',
      namespace: 'triton',
      labels: LABELS,
      annotations: { 'pulumi.com/patchForce': 'true' },
    },
    spec: {
      replicas: 2,
      selector: { matchLabels: SELECTOR },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
      minReadySeconds: 10,
      progressDeadlineSeconds: READY + END,
      revisionHistoryLimit: 3,
      template: {
        metadata: { labels: LABELS },
        spec: {
          serviceAccountName: 'triton',
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 60,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 10_001,
            runAsGroup: 10_001,
            fsGroup: 10_001,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
          affinity: {
            podAntiAffinity: {
              preferredDuringSchedulingIgnoredDuringExecution: [
                {
                  weight: 100,
                  podAffinityTerm: {
                    topologyKey: 'kubernetes.io/hostname',
                    labelSelector: { matchLabels: SELECTOR },
                  },
                },
              ],
            },
          },
          topologySpreadConstraints: [
            {
              topologyKey: 'topology.kubernetes.io/zone',
              maxSkew: 1,
              whenUnsatisfiable: 'ScheduleAnyway',
              labelSelector: { matchLabels: SELECTOR },
              matchLabelKeys: ['pod-template-hash'],
            },
          ],
          // agent.test.ts has all of it.
          initContainers: [expect.objectContaining({ name: 'agent' })],
          containers: [
            {
              name: 'triton',
              image: 'registry.example/tritonserver:1.2.3',
              imagePullPolicy: 'Always',
              // gpu-check.test.ts runs the script.
              command: ['/bin/sh', '-c', expect.stringMatching(/^gpus=1\nleast=1\n#/) as string, '/var/cache/triton'],
              args: [
                '/opt/nvidia/nvidia_entrypoint.sh',
                'tritonserver',
                '--model-repository=/var/cache/triton/models',
                '--model-control-mode=explicit',
                '--exit-on-error=false',
                '--strict-readiness=false',
                '--exit-timeout-secs=30',
                '--grpc-max-connection-age=60000',
                '--metrics-config=summary_latencies=true',
                '--metrics-config=summary_quantiles=0.5:0.01,0.85:0.005,0.93:0.005,0.95:0.001,0.99:0.001',
                `--http-restricted-api=${GUARD}`,
                `--grpc-restricted-protocol=${GUARD}`,
              ],
              env: [
                { name: 'HOME', value: '/tmp' },
                { name: 'USER', value: 'triton' },
                { name: 'OMP_WAIT_POLICY', value: 'PASSIVE' },
                {
                  name: 'GLIBC_TUNABLES',
                  value: 'glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184',
                },
              ],
              ports: [
                { name: 'http', containerPort: 8000 },
                { name: 'grpc', containerPort: 8001 },
                { name: 'metrics', containerPort: 8002 },
              ],
              startupProbe: {
                httpGet: { path: '/v2/health/live', port: 'http' },
                periodSeconds: 2,
                timeoutSeconds: 5,
                failureThreshold: 60,
              },
              readinessProbe: {
                exec: {
                  command: ['/bin/sh', '-c', expect.stringContaining('curl') as string, 'probe', '/var/cache/triton'],
                },
                periodSeconds: 5,
                timeoutSeconds: 5,
                failureThreshold: 3,
              },
              livenessProbe: {
                httpGet: { path: '/v2/health/live', port: 'http' },
                periodSeconds: 15,
                timeoutSeconds: 10,
                failureThreshold: 6,
              },
              lifecycle: { preStop: { sleep: { seconds: 15 } } },
              resources: {
                requests: { cpu: '2', memory: '8Gi', 'ephemeral-storage': '22Gi', 'nvidia.com/gpu': '1' },
                limits: { cpu: '4', memory: '8Gi', 'ephemeral-storage': '22Gi', 'nvidia.com/gpu': '1' },
              },
              securityContext: {
                allowPrivilegeEscalation: false,
                readOnlyRootFilesystem: true,
                capabilities: { drop: ['ALL'] },
              },
              volumeMounts: [
                { name: 'scratch', mountPath: '/var/cache/triton', readOnly: true },
                { name: 'tmp', mountPath: '/tmp' },
                { name: 'shared-memory', mountPath: '/dev/shm' },
              ],
            },
          ],
          volumes: [
            { name: 'scratch', emptyDir: { sizeLimit: '20Gi' } },
            { name: 'tmp', emptyDir: { sizeLimit: '2Gi' } },
            { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: '1Gi' } },
            { name: 'agent', configMap: { name: 'triton-agent-a1b2c3d' } },
            expect.objectContaining({ name: 'aws-token' }),
          ],
        },
      },
    },
  });
});

test('the timeouts of "pulumi up" cover the replacement of every pod in sequence', async () => {
  const one = READY + END;
  expect((await deployment()).registered.timeouts).toMatchObject({ create: `${2 * one}s`, update: `${2 * one}s` });
  const three = await deployment({ replicas: 5, rollout: { maxUnavailable: 2 } });
  expect(three.registered.timeouts.update).toBe(`${3 * one}s`);
  const surge = await deployment({ replicas: 5, rollout: { maxSurge: 1, maxUnavailable: 0 } });
  expect(surge.registered.timeouts.update).toBe(`${5 * one}s`);
});

test('the timeout for deleting the Deployment covers the end of its pods', async () => {
  const slow = await deployment({ drainSeconds: 3600 });
  expect(slow.registered.timeouts.delete).toBe(`${3600 + 30 + 15 + 600}s`);
});

test('replicas may be 0', async () => {
  expect((await deployment({ replicas: 0 })).manifest.spec.replicas).toBe(0);
});

describe('resources', () => {
  test('gpusPerPod 0 requests and tolerates no GPU', async () => {
    const { pod, container } = await deployment({ gpusPerPod: 0 });
    expect(pod['tolerations']).toEqual([]);
    const [, , script] = container['command'] as string[];
    expect(script?.startsWith(`${RAISE_STACK_LIMIT}\n`)).toBe(true);
    expect(container['resources']).toEqual({
      requests: { cpu: '2', memory: '8Gi', 'ephemeral-storage': '22Gi' },
      limits: { cpu: '4', memory: '8Gi', 'ephemeral-storage': '22Gi' },
    });
  });

  test('requests the configured resources, and disk for models and temporary files', async () => {
    const { pod, container } = await deployment({
      gpusPerPod: 4,
      resources: { cpu: 7.5, memoryGiB: 60, sharedMemoryGiB: 8, scratchGiB: 200 },
    });
    const whole = { memory: '60Gi', 'ephemeral-storage': '202Gi', 'nvidia.com/gpu': '4' };
    expect(container['resources']).toEqual({ requests: { cpu: '7.5', ...whole }, limits: { cpu: '15', ...whole } });
    expect((pod['volumes'] as object[]).slice(0, 3)).toEqual([
      { name: 'scratch', emptyDir: { sizeLimit: '200Gi' } },
      { name: 'tmp', emptyDir: { sizeLimit: '2Gi' } },
      { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: '8Gi' } },
    ]);
  });
});

describe('probes and times', () => {
  test('the grace period covers draining, open requests and unloading', async () => {
    const { pod, container } = await deployment({ drainSeconds: 40 });
    expect(pod.terminationGracePeriodSeconds).toBe(40 + 30 + 15);
    expect(container['lifecycle']).toEqual({ preStop: { sleep: { seconds: 40 } } });
  });
});

describe('rollout', () => {
  test('replaces maxUnavailable pods at once', async () => {
    const { manifest } = await deployment({ replicas: 6, rollout: { maxUnavailable: 3 } });
    expect(manifest.spec.strategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: 0, maxUnavailable: 3 },
    });
  });

  test('with maxSurge, all pods stay available, and nodes can be drained', async () => {
    const { only } = await render({ rollout: { maxSurge: 1, maxUnavailable: 0 } });
    expect(only('PodDisruptionBudget')).toMatchObject({ spec: { maxUnavailable: 1 } });
    const { manifest } = await deployment({ rollout: { maxSurge: 1, maxUnavailable: 0 } });
    expect(manifest.spec.strategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: 1, maxUnavailable: 0 },
    });
  });

  test('the disruption budget allows maxUnavailable, and does not protect pods that are not ready', async () => {
    const { only } = await render({ replicas: 6, rollout: { maxUnavailable: 3 } });
    expect(only('PodDisruptionBudget')).toEqual({
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'triton', namespace: 'triton', labels: LABELS },
      spec: {
        maxUnavailable: 3,
        selector: { matchLabels: SELECTOR },
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    });
  });

  test('with autoscaling, replicas starts at minReplicas and is then ignored', async () => {
    const autoscaling = { minReplicas: 3, maxReplicas: 9 } as const;
    const { manifest, registered } = await deployment({ autoscaling, replicas: 5 });
    expect(manifest.spec.replicas).toBe(3);
    expect(registered.ignoreChanges).toEqual(['spec.replicas']);
    expect(registered.timeouts.update).toBe(`${9 * (READY + END)}s`);
    expect((await deployment()).registered.ignoreChanges).toEqual([]);
  });
});

describe('scheduling', () => {
  test('the parts of the PodSpec are added to the defaults', async () => {
    const { pod } = await deployment({
      pod: {
        nodeSelector: { 'triton-serving/pool': 'a10g' },
        tolerations: [
          { key: 'pool', value: 'a10g', effect: 'NoSchedule' },
          { key: 'spot' },
          { key: 'any', operator: 'Exists', effect: 'NoExecute' },
        ],
        runtimeClassName: 'nvidia',
        priorityClassName: 'serving',
        imagePullSecrets: ['registry'],
      },
    });
    expect(pod).toMatchObject({
      nodeSelector: { 'triton-serving/pool': 'a10g' },
      runtimeClassName: 'nvidia',
      priorityClassName: 'serving',
      imagePullSecrets: [{ name: 'registry' }],
    });
    expect(pod['tolerations']).toEqual([
      { key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' },
      { key: 'pool', operator: 'Equal', value: 'a10g', effect: 'NoSchedule' },
      { key: 'spot', operator: 'Exists' },
      { key: 'any', operator: 'Exists', effect: 'NoExecute' },
    ]);
  });
});

describe('the container', () => {
  test('an image with a digest is pulled only if it is not present', async () => {
    const { container } = await deployment({ image: `triton@sha256:${'0'.repeat(64)}` });
    expect(container['imagePullPolicy']).toBe('IfNotPresent');
  });

  test('extraArguments and environment come last', async () => {
    const { container } = await deployment({
      extraArguments: ['--log-verbose=1'],
      environment: { NVIDIA_TF32_OVERRIDE: '0' },
    });
    expect(container.args.at(-1)).toBe('--log-verbose=1');
    expect(container.env.at(-1)).toEqual({ name: 'NVIDIA_TF32_OVERRIDE', value: '0' });
  });
});

describe('with tracing, Triton', () => {
  const container = async (sampleRate?: number): Promise<{ args: string[]; env: object[] }> => {
    const tracing = { otlpEndpoint: 'http://collector.monitoring.svc:4318/', sampleRate };
    const { only } = await render({ tracing });
    const spec = only('Deployment')['spec'] as {
      template: { spec: { containers: { args: string[]; env: object[] }[] } };
    };
    return spec.template.spec.containers[0] ?? { args: [], env: [] };
  };

  test('sends its spans to the collector, with the names of the component, namespace and pod', async () => {
    const { args, env } = await container();
    expect(args.filter((argument) => argument.startsWith('--trace-config'))).toEqual([
      '--trace-config=mode=opentelemetry',
      '--trace-config=level=TIMESTAMPS',
      '--trace-config=rate=0',
      '--trace-config=opentelemetry,url=http://collector.monitoring.svc:4318/v1/traces',
      '--trace-config=opentelemetry,resource=service.name=triton',
      '--trace-config=opentelemetry,resource=k8s.namespace.name=triton',
      '--trace-config=opentelemetry,resource=k8s.pod.name=$(POD_NAME)',
    ]);
    expect(env).toContainEqual({ name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } });
  });

  test.each([
    [1, 1],
    [0.01, 100],
    [0.3, 3],
    [1e-12, 2 ** 31 - 1],
  ])('traces with the sample rate %d one of %d requests', async (sampleRate, requests) => {
    expect((await container(sampleRate)).args).toContain(`--trace-config=rate=${requests}`);
  });
});
