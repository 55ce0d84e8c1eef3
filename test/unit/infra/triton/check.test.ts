import * as pulumi from '@pulumi/pulumi';
import type { TritonServerArgs } from '../../../../infra/triton/args';
import { readArguments } from '../../../../infra/triton/rules';
import { formatProblem, UserError } from '../../../../src/core/errors';
import { describe as shown } from '../../../../src/core/problems';
import { ARGS } from '../../../support/render';

type ExposureArgs = NonNullable<TritonServerArgs['exposure']>;

/** What is said against the arguments, one line for each problem. */
function problems(more: Partial<TritonServerArgs>, name = 'triton'): string[] {
  try {
    readArguments(name, { ...ARGS, ...more });
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return error.problems.map((one) => formatProblem(one).replace('TritonServer triton: ', ''));
  }
}

const ingress = (more: ExposureArgs): ExposureArgs => ({
  kind: 'ingress',
  host: 'triton.example.com',
  controllerCidrs: ['10.0.0.0/16'],
  certificateArn: 'arn:aws:acm:eu-central-1:123456789012:certificate/1',
  ...more,
});
const scaling = { minReplicas: 2, maxReplicas: 4 };
const balanced = (clientCidrs: string[]): ExposureArgs => ({
  kind: 'internal-load-balancer',
  clientCidrs,
  controllerCidrs: ['10.0.0.0/16'],
});

/** Annotations of AWS's ingress controllers. */
const alb = (annotations: object): Record<string, string> =>
  Object.fromEntries(
    Object.entries(annotations).map(([name, value]) => [`alb.ingress.kubernetes.io/${name}`, String(value)]),
  );

test.each([
  { 'auth-type': 'oidc', 'auth-on-unauthenticated-request': 'deny' },
  { 'mutual-authentication': '[{"port": 443, "mode":"verify", "trustStore": "ARN"}]' },
  { 'jwt-validation': '{}' },
])('readArguments accepts an ingress on the internet with %j', (annotations) => {
  expect(problems({ exposure: ingress({ scheme: 'internet-facing', annotations: alb(annotations) }) })).toEqual([]);
});

test('readArguments accepts valid arguments', () => {
  expect(problems({})).toEqual([]);
  expect(problems({ image: `example.com:5000/triton@sha256:${'0'.repeat(64)}` })).toEqual([]);
  expect(problems({ exposure: ingress({}), autoscaling: scaling, monitoring: {} })).toEqual([]);
  expect(problems({ exposure: balanced(['10.0.0.0/8', 'fd00::/8']) })).toEqual([]);
  // A single replica must be evicted when its node is drained.
  expect(problems({ replicas: 1 })).toEqual([]);
  expect(problems({ replicas: 0 })).toEqual([]);
  expect(problems({ endpointUrl: 'https://s3.example.com', region: 'RegionOne' })).toEqual([]);
  for (const otlpEndpoint of ['http://collector.monitoring.svc:4318', 'https://otlp.example.com/otlp/']) {
    expect(problems({ tracing: { otlpEndpoint, sampleRate: 0.001 } })).toEqual([]);
  }
  expect(
    problems({
      pod: {
        nodeSelector: { 'node.kubernetes.io/instance-type': 'g6.xlarge', Team_1: '' },
        tolerations: [{ key: 'example.com/team', value: 'A_1.b' }, { key: 'spot' }],
        imagePullSecrets: ['registry.example.com-1', 'a'.repeat(253)],
      },
      exposure: ingress({
        host: `1.${'a'.repeat(63)}.3com`,
        annotations: { 'nginx.ingress.kubernetes.io/a_b': '$ /' },
      }),
    }),
  ).toEqual([]);
});

test('readArguments accepts outputs, whose values it does not know, where they decide about no other object', () => {
  const output = pulumi.output('known later');
  expect(
    problems({
      modelRepository: output,
      region: output,
      endpointUrl: output,
      credentials: { roleArn: output },
      environment: { LOGS: output },
      exposure: ingress({ certificateArn: output, controllerCidrs: pulumi.output(['']), annotations: { a: output } }),
    }),
  ).toEqual([]);
  expect(problems({ exposure: ingress({ controllerCidrs: [output, 'vpc'] }) })).toEqual([
    'exposure.controllerCidrs[1]: is "vpc"; allowed: a range, "10.0.0.0/16"',
  ]);
  expect(problems({ replicas: pulumi.output(2) as unknown as number })).toEqual([
    'replicas: is an output of another resource; allowed: a whole number from 0 to 1000\n' +
      '    -> set a value that is known before the deployment, because it decides which objects there are',
  ]);
});

test('readArguments fills in defaults for arguments that are undefined', () => {
  const missing: Partial<TritonServerArgs> = {
    namespace: { name: undefined },
    resources: { cpu: undefined, memoryGiB: undefined },
    egressCidrs: undefined,
    monitoring: undefined,
  };
  const complete = readArguments('triton', { ...ARGS, ...missing });
  expect(complete).toEqual(readArguments('triton', ARGS));
  const { name, ...again } = complete;
  expect(readArguments(name, again)).toEqual(complete);
});

/** What is reported, and of which arguments. */
type Row = [string, Partial<TritonServerArgs>];

const RANGE = 'allowed: a range, "10.0.0.0/16"';
const IMAGE = 'it may be another image at the next start; allowed: IMAGE:VERSION (not latest) or IMAGE@sha256:DIGEST';
const RUNBOOK = 'allowed: a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md';
const COLLECTOR = 'allowed: a URL without /v1/traces, such as http://collector.monitoring.svc:4318';
const TAGS =
  'allowed: letters, digits, spaces and _ . : / + - @, in values also =\n' +
  '    -> change the tag, which is in aws:defaultTags if you use a stack file';
const OBJECT = 'allowed: the name of an object, "registry-key": lower-case letters, digits, hyphens and dots';
const QUALIFIED =
  'allowed: at most 63 letters, digits, "-", "_" and ".", after a domain and "/" if it has one: "example.com/team"';
const VALUE = 'allowed: at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends';
const DNS = 'allowed: at most 63 lower-case letters, digits and hyphens';

test.each<Row>([
  [`image: is "tritonserver:latest": ${IMAGE}`, { image: 'tritonserver:latest' }],
  [`agent.image: is "registry:5000/node": ${IMAGE}`, { agent: { image: 'registry:5000/node' } }],
  [
    'image: is Triton 26.05, which has CVE-2026-47627 (path traversal, CVSS 9.8); allowed: 26.06 or newer\n' +
      '    -> read https://nvidia.custhelp.com/app/answers/detail/a_id/5865, and set image to a newer release, or add CVE-2026-47627 to acceptedVulnerabilities',
    { image: 'tritonserver:26.05-py3' },
  ],
  ['replicas: is -1; allowed: a whole number from 0 to 1000', { replicas: -1 }],
  ['gpusPerPod: is 0.5; allowed: a whole number from 0 to 16', { gpusPerPod: 0.5 }],
  [
    `loadBalancerTags["a=b"]: has "=" in its key, which ends the key in the annotation of the load balancer; ${TAGS}`,
    { loadBalancerTags: { 'a=b': 'c' }, exposure: balanced(['10.1.0.0/16']) },
  ],
  [
    `loadBalancerTags.team: is "vision,audio", but AWS refuses some of the characters for load balancers; ${TAGS}`,
    { loadBalancerTags: { team: 'vision,audio', cost: 'a=b' }, exposure: balanced(['10.1.0.0/16']) },
  ],
  [`namespace.name: is "My_Models"; ${DNS}`, { namespace: { name: 'My_Models' } }],
  [`monitoring.namespace: is "Prom Stack"; ${DNS}`, { monitoring: { namespace: 'Prom Stack' } }],
  [`clientNamespaces[1]: is "Web"; ${DNS}`, { clientNamespaces: ['web', 'Web'] }],
  [
    'pod.imagePullSecrets[1]: repeats "registry"; allowed: each value once',
    { pod: { imagePullSecrets: ['registry', 'registry'] } },
  ],
  ...['My Registry', 'a..b', '-a', 'a_b', 'a'.repeat(254)].flatMap((name): Row[] => {
    const own = { ...ingress({ tlsSecretName: name, annotations: { a: 'b' } }), certificateArn: undefined };
    return [
      [`pod.imagePullSecrets[0]: is ${shown(name)}; ${OBJECT}`, { pod: { imagePullSecrets: [name] } }],
      [`pod.runtimeClassName: is ${shown(name)}; ${OBJECT}`, { pod: { runtimeClassName: name } }],
      [`pod.priorityClassName: is ${shown(name)}; ${OBJECT}`, { pod: { priorityClassName: name } }],
      [`exposure.className: is ${shown(name)}; ${OBJECT}`, { exposure: ingress({ className: name }) }],
      [`exposure.tlsSecretName: is ${shown(name)}; ${OBJECT}`, { exposure: own }],
    ];
  }),
  ...['a b', '-a', 'a/b/c', '/a', 'a/', 'Example.com/a', '', 'a'.repeat(64), `${'a'.repeat(254)}/b`].flatMap(
    (name): Row[] => [
      [`pod.nodeSelector: has the name ${shown(name)}; ${QUALIFIED}`, { pod: { nodeSelector: { [name]: 'b' } } }],
      [
        `monitoring.selectorLabels: has the name ${shown(name)}; ${QUALIFIED}`,
        { monitoring: { selectorLabels: { [name]: 'b' } } },
      ],
      [
        `exposure.annotations: has the name ${shown(name)}; ${QUALIFIED}`,
        { exposure: ingress({ annotations: { [name]: 'any value /' } }) },
      ],
    ],
  ),
  [
    `exposure.loadBalancerClass: is "eks/nlb/2"; ${QUALIFIED}`,
    { exposure: { ...balanced(['10.1.0.0/16']), loadBalancerClass: 'eks/nlb/2' } },
  ],
  [`pod.tolerations[0].key: is "a b"; ${QUALIFIED}`, { pod: { tolerations: [{ key: 'a b' }] } }],
  ...['a b', 'a/b', '-a', 'a.', 'a'.repeat(64)].flatMap((value): Row[] => [
    [`pod.nodeSelector.team: is ${shown(value)}; ${VALUE}`, { pod: { nodeSelector: { team: value } } }],
    [`pod.tolerations[0].value: is ${shown(value)}; ${VALUE}`, { pod: { tolerations: [{ key: 'a', value }] } }],
    [
      `monitoring.selectorLabels["a.b/c"]: is ${shown(value)}; ${VALUE}`,
      { monitoring: { selectorLabels: { 'a.b/c': value } } },
    ],
  ]),
  [
    'autoscaling.prometheusUrl: is "prometheus:9090"; allowed: a URL, "http://prometheus.monitoring.svc:9090"',
    { autoscaling: { ...scaling, prometheusUrl: 'prometheus:9090' } },
  ],
  ['endpointUrl: is "http://s3:0"; allowed: "http://HOST:PORT" or "https://HOST:PORT"', { endpointUrl: 'http://s3:0' }],
  ['modelRepository: is "faces/models"; allowed: s3://BUCKET/PREFIX', { modelRepository: 'faces/models' }],
  ['region: is "Frankfurt"; allowed: a region such as eu-central-1', { region: 'Frankfurt' }],
  ['credentials.roleArn: is "faces"; allowed: the ARN of an IAM role', { credentials: { roleArn: 'faces' } }],
  ['credentials: is missing; allowed: either roleArn, or accessKeyId with secretAccessKey', { credentials: undefined }],
  [
    'credentials: is incomplete or has both forms; allowed: either roleArn, or accessKeyId with secretAccessKey',
    { credentials: { accessKeyId: 'a' } },
  ],
  [
    'exposure.kind: is "loadbalancer"; allowed: cluster, internal-load-balancer, ingress\n' +
      '    -> Clients that can reach the replicas: those in the cluster, those in the VPC through a network load balancer, ' +
      'or those of other networks through an ingress with TLS, which excludes model control.',
    { exposure: { kind: 'loadbalancer' } as unknown as ExposureArgs },
  ],
  ['resources.cpu: is 0; allowed: a number from 0.1 to 256', { resources: { cpu: 0 } }],
  [
    'resources.sharedMemoryGiB: is 8, but shared memory is a part of memoryGiB; allowed: less than 8',
    { resources: { sharedMemoryGiB: 8 } },
  ],
  ['startSeconds: is 9; allowed: a whole number from 10 to 86400', { startSeconds: 9 }],
  ['drainSeconds: is 0; allowed: a whole number from 1 to 3600', { drainSeconds: 0 }],
  ['rollout.maxUnavailable: is 2 of 2 replicas; allowed: at most 1', { rollout: { maxUnavailable: 2 } }],
  [
    'rollout.maxUnavailable: is 3 of 2 replicas; allowed: at most 1',
    { rollout: { maxUnavailable: 3 }, replicas: 9, autoscaling: scaling },
  ],
  [
    'rollout.maxUnavailable: is 0, and maxSurge too, so no update could replace a replica; allowed: at least 1 in one of them',
    { rollout: { maxUnavailable: 0 } },
  ],
  [
    'autoscaling.minReplicas: is 0; allowed: a whole number from 1 to 1000',
    { autoscaling: { ...scaling, minReplicas: 0 } },
  ],
  ['autoscaling.minReplicas: is 5; allowed: at most maxReplicas, 4', { autoscaling: { ...scaling, minReplicas: 5 } }],
  [
    `monitoring.runbookUrl: is "git.example.com/a.md"; ${RUNBOOK}`,
    { monitoring: { runbookUrl: 'git.example.com/a.md' } },
  ],
  [`monitoring.runbookUrl: is "https://a/b.md#c"; ${RUNBOOK}`, { monitoring: { runbookUrl: 'https://a/b.md#c' } }],
  [
    'monitoring.slo.errorRate: is 0.06; allowed: a number from 0.00001 to 0.05',
    { monitoring: { slo: { errorRate: 0.06 } } },
  ],
  ...[
    'collector:4318',
    'grpc://collector:4318',
    'http://collector:4318/v1/traces',
    'http://collector:4318/?key=1',
    'http://key@collector:4318',
    'http://collector:99999',
    'http://collector:0',
    'http://$(HOST):4318',
  ].map((otlpEndpoint): Row => [
    `tracing.otlpEndpoint: is "${otlpEndpoint}"; ${COLLECTOR}`,
    { tracing: { otlpEndpoint } },
  ]),
  [
    `tracing.otlpEndpoint: is "http://collector:4317": collectors receive gRPC on port 4317; ${COLLECTOR}\n` +
      '    -> set the port on which the collector receives OTLP over HTTP, which is usually 4318',
    { tracing: { otlpEndpoint: 'http://collector:4317' } },
  ],
  [
    'tracing.sampleRate: is 2; allowed: a number from 0 to 1',
    { tracing: { otlpEndpoint: 'http://collector:4318', sampleRate: 2 } },
  ],
  [`egressCidrs[0]: is "anywhere"; ${RANGE}`, { egressCidrs: ['anywhere'] }],
  [
    `exposure.clientCidrs[0]: is "fd00::1": an address, not a range; ${RANGE}\n    -> write fd00::1/128 for this address`,
    { exposure: balanced(['fd00::1']) },
  ],
  [`exposure.clientCidrs[0]: is "10.0.0.0/fd00::/8"; ${RANGE}`, { exposure: balanced(['10.0.0.0/fd00::/8']) }],
  [`exposure.clientCidrs[0]: is "fd00::/129"; ${RANGE}`, { exposure: balanced(['fd00::/129']) }],
  ['exposure.clientCidrs: is empty; allowed: at least one range, ["10.0.0.0/16"]', { exposure: balanced([]) }],
  [
    'exposure.controllerCidrs: is empty; allowed: the IP ranges of the load balancer or ingress controller, ["10.0.0.0/16"]',
    { exposure: ingress({ controllerCidrs: [] }) },
  ],
  ...['https://triton.example.com', '10.0.0.1', '1.2', '7', `${'a'.repeat(64)}.com`, `${'a.'.repeat(126)}com`].map(
    (host): Row => [
      `exposure.host: is ${shown(host)}; allowed: a name such as triton.example.com`,
      { exposure: ingress({ host }) },
    ],
  ),
  [
    'exposure.certificateArn: is "arn:aws:iam::123456789012:role/a"; allowed: an ARN, "arn:aws:acm:REGION:123456789012:certificate/..."',
    { exposure: ingress({ certificateArn: 'arn:aws:iam::123456789012:role/a' }) },
  ],
  [
    'exposure.host: is missing, but exposure.kind is ingress; allowed: a name such as triton.example.com',
    { exposure: ingress({ host: undefined }) },
  ],
  [
    'exposure.host: has no effect, because exposure.kind is cluster\n    -> set exposure.kind to ingress, or remove host',
    { exposure: { host: 'triton.example.com' } },
  ],
  [
    'exposure: has no certificate; allowed: one of certificateArn, tlsSecretName',
    { exposure: ingress({ certificateArn: undefined }) },
  ],
  [
    'exposure: has two certificates; allowed: one of certificateArn, tlsSecretName',
    { exposure: ingress({ tlsSecretName: 'tls' }) },
  ],
  [
    'exposure.annotations: is empty, so every client would be admitted\n' +
      '    -> set the annotations with which the ingress controller authenticates clients',
    { exposure: ingress({ certificateArn: undefined, tlsSecretName: 'tls' }) },
  ],
  [
    'pod.tolerations[0].value: is set, but the operator Exists accepts every value\n    -> remove one of them',
    { pod: { tolerations: [{ key: 'a', operator: 'Exists', value: 'b' }] } },
  ],
  ...[
    { 'group.name': 'a' },
    { 'auth-type': 'none' },
    { 'mutual-authentication': '[{"port": 443, "mode": "passthrough"}]' },
    { 'jwt-validation': '' },
    { 'auth-type': 'oidc', 'auth-on-unauthenticated-request': 'allow' },
  ].map((annotations): Row => [
    'exposure.annotations: has no authentication, but the ingress is internet-facing; allowed: ' +
      'alb.ingress.kubernetes.io/mutual-authentication with the mode verify, jwt-validation, or auth-type with cognito or oidc, ' +
      'without auth-on-unauthenticated-request: allow\n    -> add the annotation, or set scheme to internal',
    { exposure: ingress({ scheme: 'internet-facing', annotations: alb(annotations) }) },
  ]),
  ...['scheme', 'listen-ports', 'certificate-arn', 'inbound-cidrs', 'target-type'].map((name): Row => [
    `exposure.annotations["alb.ingress.kubernetes.io/${name}"]: is an annotation that this package decides\n` +
      '    -> remove it; scheme, certificateArn and clientCidrs are members of exposure',
    { exposure: ingress({ annotations: alb({ [name]: 'a' }) }) },
  ]),
  [
    'exposure.clientCidrs: has no effect on a controller other than that of AWS\n' +
      '    -> remove it, and limit the addresses by an annotation of the controller, such as nginx.ingress.kubernetes.io/whitelist-source-range',
    {
      exposure: ingress({
        certificateArn: undefined,
        tlsSecretName: 'tls',
        annotations: { a: 'b' },
        clientCidrs: ['203.0.113.0/24'],
      }),
    },
  ],
])('readArguments reports %s', (expected, more) => {
  expect(problems(more)).toEqual([expected]);
});

test.each(['Triton', '1st', 'triton-', 'a'.repeat(41), ''])('readArguments rejects the name %j', (name) => {
  expect(problems({ namespace: { name: 'serving' } }, name)).toEqual([
    `TritonServer ${name}: name: is "${name}"; allowed: at most 40 lower-case letters, digits and -, ` +
      'beginning with a letter',
  ]);
});

const COUNTERS = ': it stops the counters of alerts and autoscaling';
const PERCENTILES = ': it stops the percentiles of the dashboard and of slo';

test.each([
  ['--model-repository=/models', ''],
  ['--allow-http=false', ''],
  ['--allow-vertex-ai=true', ''],
  ['--model-store=/x', ''],
  ['--help', ''],
  ['--log-verbose 1', ''],
  ['--http_port=9', ''],
  ['verbose', ''],
  // Triton accepts abbreviations.
  ['--model-control=none', ': Triton takes it for --model-control-mode'],
  ['--model-repo=/x', ': Triton takes it for --model-repository'],
  ['--metrics-c=counter_latencies=false', ': Triton takes it for --metrics-config'],
  ['--metrics-config=counter_latencies=false', COUNTERS],
  ['--metrics-config=summary_latencies=false', PERCENTILES],
  ['--metrics-config=summary_quantiles=0.5:0.05', PERCENTILES],
])('readArguments rejects the argument %s%s', (argument, reason) => {
  expect(
    problems({ extraArguments: ['--log-verbose=1', '--metrics-config=summary_latencies=true', argument] }),
  ).toEqual([expect.stringContaining(`extraArguments[2]: is "${argument}"${reason}; allowed: --NAME=VALUE, but not `)]);
});

test.each(['AWS_REGION', 'HOME', 'POD_NAME', 'A-B'])('readArguments rejects the variable %s', (name) => {
  expect(problems({ environment: { LOGS: 'x', [name]: 'x' } })).toEqual([
    expect.stringContaining(
      `environment: has the name "${name}"; allowed: letters, digits and _, but not AWS_*, POD_NAME, HOME and USER`,
    ),
  ]);
});

test('readArguments reports all problems at once', () => {
  expect(problems({ image: 'triton', replicas: 1.5, unknown: 1 } as object)).toHaveLength(3);
  expect(problems({ resources: { sharedMemoryGiB: 8 }, exposure: balanced([]) })).toHaveLength(2);
});
