import * as pulumi from '@pulumi/pulumi';
import type { Exposure, TritonServerArgs } from '../../../../infra/triton/args';
import { checkArguments } from '../../../../infra/triton/validate';
import { withDefaults } from '../../../../infra/triton/settings';
import { formatProblem, UserError } from '../../../../src/core/errors';
import { ARGS } from '../../../support/render';

/** What is said against the arguments, one line for each problem. */
function problems(more: Partial<TritonServerArgs>, name = 'triton'): string[] {
  try {
    checkArguments(withDefaults(name, { ...ARGS, ...more }));
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return error.problems.map((one) => formatProblem(one).replace('TritonServer triton: ', ''));
  }
}

const ingress = (more: object): Exposure => ({
  kind: 'ingress',
  host: 'triton.example.com',
  controllerCidrs: ['10.0.0.0/16'],
  tls: { kind: 'acm', certificateArn: 'arn' },
  ...more,
});
const scaling = { kind: 'keda', minReplicas: 2, maxReplicas: 4 } as const;
const balanced = (clientCidrs: string[]): Exposure => ({
  kind: 'internal-load-balancer',
  clientCidrs,
  loadBalancerCidrs: ['10.0.0.0/16'],
});

test('checkArguments accepts valid arguments', () => {
  expect(problems({})).toEqual([]);
  expect(problems({ image: `example.com:5000/triton@sha256:${'0'.repeat(64)}` })).toEqual([]);
  expect(problems({ exposure: ingress({}), autoscaling: scaling, monitoring: {} })).toEqual([]);
  expect(problems({ exposure: balanced(['10.0.0.0/8', 'fd00::/8']) })).toEqual([]);
  // A single replica must be evicted when its node is drained.
  expect(problems({ replicas: 1 })).toEqual([]);
  expect(problems({ replicas: 0 })).toEqual([]);
  expect(problems({ endpointUrl: 'https://s3.example.com', region: 'RegionOne' })).toEqual([]);
  // Outputs are not known yet.
  const credentials = { kind: 'role', roleArn: pulumi.output('faces') } as const;
  expect(problems({ modelRepository: pulumi.output('faces'), region: pulumi.output(''), credentials })).toEqual([]);
});

test('withDefaults fills in defaults for arguments that are undefined', () => {
  const missing: Partial<TritonServerArgs> = {
    namespace: { name: undefined },
    resources: { cpu: undefined, memoryGiB: undefined },
    startup: { loadSeconds: undefined },
    network: { egressCidrs: undefined },
    monitoring: undefined,
  };
  expect(withDefaults('triton', { ...ARGS, ...missing })).toEqual(
    withDefaults('triton', { ...ARGS, namespace: undefined }),
  );
});

test.each<[string, Partial<TritonServerArgs>]>([
  [
    'image: is "nvcr.io/nvidia/tritonserver:latest", which may be another image at the next start; ' +
      'allowed: IMAGE:VERSION (not latest) or IMAGE@sha256:...',
    { image: 'nvcr.io/nvidia/tritonserver:latest' },
  ],
  [
    'image: is "registry:5000/triton", which may be another image at the next start; ' +
      'allowed: IMAGE:VERSION (not latest) or IMAGE@sha256:...',
    { image: 'registry:5000/triton' },
  ],
  ['replicas: is -1; allowed: a whole number from 0 to 1000', { replicas: -1 }],
  ['gpusPerPod: is 0.5; allowed: a whole number from 0 to 16', { gpusPerPod: 0.5 }],
  [
    'loadBalancerTags["a=b"]: has "=" in its key, which ends the key in the annotation of the load balancer; ' +
      'allowed: letters, digits, spaces and _ . : / + - @, in values also =\n' +
      '    -> change the tag, which is in aws:defaultTags if you use a stack file',
    { loadBalancerTags: { 'a=b': 'c' }, exposure: balanced(['10.1.0.0/16']) },
  ],
  [
    'loadBalancerTags.team: is "vision,audio", but AWS refuses some of the characters for load balancers; ' +
      'allowed: letters, digits, spaces and _ . : / + - @, in values also =\n' +
      '    -> change the tag, which is in aws:defaultTags if you use a stack file',
    { loadBalancerTags: { team: 'vision,audio', cost: 'a=b' }, exposure: balanced(['10.1.0.0/16']) },
  ],
  [
    'namespace.name: is "My_Models"; allowed: at most 63 lower-case letters, digits and -',
    { namespace: { name: 'My_Models' } },
  ],
  [
    'network.monitoringNamespace: is "Prom Stack"; allowed: at most 63 lower-case letters, digits and -',
    { network: { monitoringNamespace: 'Prom Stack' } },
  ],
  [
    'network.clientNamespaces: has "Web"; allowed: at most 63 lower-case letters, digits and -',
    { network: { clientNamespaces: ['web', 'Web'] } },
  ],
  ['modelRepository: is "faces/models"; allowed: s3://BUCKET/PREFIX', { modelRepository: 'faces/models' }],
  ['modelRepository: is missing; allowed: s3://BUCKET/PREFIX', { modelRepository: undefined }],
  ['region: is ""; allowed: a region such as eu-central-1', { region: '' }],
  ['region: is "Frankfurt"; allowed: a region such as eu-central-1', { region: 'Frankfurt' }],
  [
    'credentials.roleArn: is "faces"; allowed: the ARN of an IAM role',
    { credentials: { kind: 'role', roleArn: 'faces' } },
  ],
  ['credentials.kind: is missing; allowed: "role", "static-keys"', { credentials: undefined }],
  [
    'exposure.kind: is "loadbalancer"; allowed: "cluster", "internal-load-balancer", "ingress"',
    { exposure: { kind: 'loadbalancer' } as unknown as Exposure },
  ],
  [
    'autoscaling.kind: is "hpa"; allowed: "keda", "custom-metrics"',
    { autoscaling: { ...scaling, kind: 'hpa' } as unknown as typeof scaling },
  ],
  ['resources.cpu: is 0; allowed: more than 0', { resources: { cpu: 0, cpuLimit: 1 } }],
  ['resources.cpuLimit: is 1; allowed: at least cpu, 4', { resources: { cpu: 4, cpuLimit: 1 } }],
  [
    'resources.sharedMemoryGiB: is 8, but shared memory is a part of memoryGiB; allowed: less than 8',
    { resources: { sharedMemoryGiB: 8 } },
  ],
  ['resources.scratchGiB: is 0; allowed: a whole number from 1 to 16384', { resources: { scratchGiB: 0 } }],
  [
    'startup: is 9 s in total; allowed: at least 10 s',
    { startup: { downloadSeconds: 5, loadSeconds: 4, warmUpSeconds: 0 } },
  ],
  ['shutdown.drainSeconds: is 0; allowed: a whole number from 1 to 3600', { shutdown: { drainSeconds: 0 } }],
  ['rollout.maxUnavailable: is 2 of 2 replicas; allowed: at most 1', { rollout: { maxUnavailable: 2 } }],
  [
    'rollout.maxUnavailable: is 3 of 2 replicas; allowed: at most 1',
    { rollout: { maxUnavailable: 3 }, replicas: 9, autoscaling: scaling },
  ],
  [
    'autoscaling.minReplicas: is 0; allowed: a whole number from 1 to 1000',
    { autoscaling: { ...scaling, minReplicas: 0 } },
  ],
  ['autoscaling.minReplicas: is 5; allowed: at most maxReplicas, 4', { autoscaling: { ...scaling, minReplicas: 5 } }],
  [
    'autoscaling.queueMilliseconds: is 0; allowed: a whole number from 1 to 600000',
    { autoscaling: { ...scaling, queueMilliseconds: 0 } },
  ],
  [
    'autoscaling.instancesPerReplica: is 0; allowed: a whole number from 1 to 1000',
    { autoscaling: { ...scaling, instancesPerReplica: 0 } },
  ],
  [
    'autoscaling.scaleDownAfterSeconds: is 7200; allowed: a whole number from 0 to 3600',
    { autoscaling: { ...scaling, scaleDownAfterSeconds: 7200 } },
  ],
  [
    'autoscaling.kind: is "custom-metrics", whose metric is a recording rule of monitoring.alerts\n' +
      '    -> set monitoring.alerts to true, or use "keda"',
    { autoscaling: { ...scaling, kind: 'custom-metrics' }, monitoring: { alerts: false } },
  ],
  ['monitoring.scrapeSeconds: is 5; allowed: a whole number from 10 to 300', { monitoring: { scrapeSeconds: 5 } }],
  [
    'monitoring.runbookUrl: is "git.example.com/runbook.md"; allowed: a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md',
    { monitoring: { runbookUrl: 'git.example.com/runbook.md' } },
  ],
  [
    'monitoring.runbookUrl: is "https://git.example.com/runbook.md#alerts"; allowed: a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md',
    { monitoring: { runbookUrl: 'https://git.example.com/runbook.md#alerts' } },
  ],
  [
    'monitoring: enables no object\n    -> remove monitoring, or set serviceMonitor, alerts or dashboard to true',
    { monitoring: { serviceMonitor: false, alerts: false, dashboard: false } },
  ],
  [
    'network.egressCidrs: has "anywhere"; allowed: ranges such as 10.0.0.0/16',
    { network: { egressCidrs: ['anywhere'] } },
  ],
  [
    'network.egressCidrs: has "10.0.0.7": an address, not a range; allowed: ranges such as 10.0.0.0/16\n' +
      '    -> write 10.0.0.7/32 for this address',
    { network: { egressCidrs: ['10.0.0.7'] } },
  ],
  [
    'exposure.clientCidrs: has "fd00::1": an address, not a range; allowed: ranges such as 10.0.0.0/16\n' +
      '    -> write fd00::1/128 for this address',
    { exposure: balanced(['fd00::1']) },
  ],
  [
    'exposure.clientCidrs: has "10.0.0.0/fd00::/8"; allowed: ranges such as 10.0.0.0/16',
    { exposure: balanced(['10.0.0.0/fd00::/8']) },
  ],
  [
    'exposure.clientCidrs: has "fd00::/129"; allowed: ranges such as 10.0.0.0/16',
    { exposure: balanced(['fd00::/129']) },
  ],
  ['network.egressCidrs: is empty; allowed: at least one, such as 10.0.0.0/16', { network: { egressCidrs: [] } }],
  [
    'network.egressPorts: is empty; allowed: at least one port\n    -> remove it for the default',
    { network: { egressPorts: [] } },
  ],
  ['network.egressPorts: has 0; allowed: a whole number from 1 to 65535', { network: { egressPorts: [443, 0] } }],
  ['exposure.clientCidrs: is empty; allowed: at least one, such as 10.0.0.0/16', { exposure: balanced([]) }],
  [
    'exposure.loadBalancerCidrs: has "vpc"; allowed: ranges such as 10.0.0.0/16',
    { exposure: { ...balanced(['10.0.0.0/8']), loadBalancerCidrs: ['10.0.0.0/16', 'vpc'] } as Exposure },
  ],
  [
    'exposure.controllerCidrs: is empty; allowed: at least one, such as 10.0.0.0/16',
    { exposure: ingress({ controllerCidrs: [] }) },
  ],
  [
    'exposure.host: is "https://triton.example.com"; allowed: a name such as triton.example.com',
    { exposure: ingress({ host: 'https://triton.example.com' }) },
  ],
  [
    'exposure.annotations: is empty, so every client would be admitted\n' +
      '    -> set the annotations with which the ingress controller authenticates clients',
    { exposure: ingress({ tls: { kind: 'secret', secretName: 'tls' } }) },
  ],
  [
    'exposure.clientCidrs: has no effect on a controller other than that of AWS\n' +
      '    -> remove it, and limit the addresses by an annotation of the controller, such as nginx.ingress.kubernetes.io/whitelist-source-range',
    {
      exposure: ingress({
        tls: { kind: 'secret', secretName: 'tls' },
        annotations: { a: 'b' },
        clientCidrs: ['203.0.113.0/24'],
      }),
    },
  ],
])('checkArguments reports %s', (expected, more) => {
  expect(problems(more)).toEqual([expected]);
});

test.each(['Triton', '1st', 'triton-', 'a'.repeat(41), ''])('checkArguments rejects the name %j', (name) => {
  expect(problems({ namespace: { name: 'serving' } }, name)).toEqual([
    `TritonServer ${name}: name: is "${name}"; allowed: at most 40 lower-case letters, digits and -, ` +
      'beginning with a letter',
  ]);
});

test.each([
  '--model-repository=/models',
  '--load-model=bert',
  '--http-port=80',
  '--allow-metrics=false',
  '-v',
  'verbose',
])('checkArguments rejects the argument %s', (argument) => {
  expect(problems({ extraArguments: ['--log-verbose=1', argument] })).toEqual([
    expect.stringMatching(new RegExp(`^extraArguments: has "${argument}"; allowed: --NAME=VALUE, but not `)),
  ]);
});

test.each([
  ['counter_latencies=false', 'the counters of alerts and autoscaling'],
  ['summary_latencies=false', 'the percentiles of the dashboard and of slo'],
  ['summary_quantiles=0.5:0.05', 'the percentiles of the dashboard and of slo'],
])('checkArguments rejects --metrics-config=%s', (config, stopped) => {
  expect(problems({ extraArguments: [`--metrics-config=${config}`] })).toEqual([
    `extraArguments: has "--metrics-config=${config}", which stops ${stopped}\n    -> remove it`,
  ]);
});

test('checkArguments accepts another metrics configuration', () => {
  expect(problems({ extraArguments: ['--metrics-config=summary_latencies=true'] })).toEqual([]);
});

test('the collector of traces has a base address of OTLP over HTTP', () => {
  const fromTracing = (otlpEndpoint: string, sampleRate?: number): string[] =>
    problems({ tracing: { otlpEndpoint, sampleRate } });
  expect(fromTracing('http://collector.monitoring.svc:4318', 0.001)).toEqual([]);
  expect(fromTracing('https://otlp.example.com/otlp/')).toEqual([]);
  for (const url of [
    'collector:4318',
    'grpc://collector:4318',
    'http://collector:4318/v1/traces',
    'http://collector:4318/?key=1',
    'http://key@collector:4318',
    'http://collector:99999',
    'http://$(HOST):4318',
  ]) {
    expect(fromTracing(url)).toEqual([
      `tracing.otlpEndpoint: is "${url}"; allowed: a URL without /v1/traces, such as http://collector.monitoring.svc:4318`,
    ]);
  }
  expect(fromTracing('http://collector:4317', 2)).toEqual([
    'tracing.otlpEndpoint: has port 4317, on which collectors receive gRPC\n' +
      '    -> set the port on which the collector receives OTLP over HTTP, which is usually 4318',
    'tracing.sampleRate: is 2; allowed: a number from 0 to 1',
  ]);
  expect(problems({ environment: { POD_NAME: 'a' } })).toHaveLength(1);
});

test('objectives need alerts, and a share of errors of which a page is possible', () => {
  expect(problems({ monitoring: {}, slo: { p99Milliseconds: 100, errorRate: 0.05 } })).toEqual([]);
  expect(problems({ monitoring: { alerts: false }, slo: { p99Milliseconds: 100 } })).toEqual([
    'slo: has no effect, because no alerts are created\n    -> set monitoring.alerts to true, or remove slo',
  ]);
  expect(problems({ monitoring: { scrapeSeconds: 60 }, slo: { errorRate: 0.01 } })).toEqual([]);
  expect(problems({ monitoring: { scrapeSeconds: 60 }, slo: { p99Milliseconds: 100 } })).toEqual([
    "monitoring.scrapeSeconds: is 60, but slo.p99Milliseconds is set; allowed: at most 30, because Triton's percentiles are of the last minute",
  ]);
  expect(problems({ monitoring: {}, slo: { p99Milliseconds: 0, errorRate: 0.06 } })).toEqual([
    'slo.p99Milliseconds: is 0; allowed: a whole number from 1 to 600000',
    'slo.errorRate: is 0.06; allowed: a number from 0.00001 to 0.05',
  ]);
});

test.each(['AWS_REGION', 'HOME', 'POD_NAME', 'A-B'])('checkArguments rejects the variable %s', (name) => {
  expect(problems({ environment: { LOGS: 'x', [name]: 'x' } })).toEqual([
    expect.stringMatching(new RegExp(`^environment: has "${name}"; allowed: `)),
  ]);
});

test('checkArguments reports all problems at once', () => {
  expect(problems({ image: 'triton', replicas: 1.5, exposure: balanced([]) })).toHaveLength(3);
});
