import type * as pulumi from '@pulumi/pulumi';
import { describe, fieldPath, formatList, ProblemList } from '../../src/core/problems';
import { LOCATION } from '../../src/release/location';
import { iamArn } from '../iam/arn';
import { rangeFault } from '../network/cidr';
import { isPinned } from './image';
import { findTagProblem } from './load-balancer-tags';
import { SLOWEST_SCRAPE_SECONDS } from './monitoring/latency';
import {
  ALB_AUTHENTICATION,
  DEFAULTS,
  ERROR_RATE_LIMITS,
  KINDS,
  LIMITS,
  PORT_LIMITS,
  SAMPLE_RATE_LIMITS,
  type Limits,
} from './limits';
import type { CompleteOptions, ResolvedTritonArgs } from './settings';
import { startupSeconds } from './timeouts';

type Rule = (options: CompleteOptions, problems: ProblemList) => void;

/**
 * Applies all rules and returns the settings.
 * @throws UserError with all problems
 */
export function checkArguments(settings: ResolvedTritonArgs): ResolvedTritonArgs {
  const problems = new ProblemList(`TritonServer ${settings.name}`);
  models(settings, problems);
  kinds(settings, problems);
  addProblems(settings, problems);
  problems.refuse(`${problems.file} has invalid arguments`);
  return settings;
}

/** Applies all rules. Problems name fields as in TritonOptions. */
export function addProblems(options: CompleteOptions, problems: ProblemList): void {
  for (const rule of RULES) rule(options, problems);
}

const RULES: readonly Rule[] = [
  names,
  images,
  numbers,
  resources,
  startup,
  rollout,
  autoscaling,
  addresses,
  exposure,
  loadBalancerTags,
  monitoring,
  slo,
  tracing,
  extraArguments,
  environment,
];

/** The arguments about the models, which no stack file has. Outputs of other resources are unknown here and not checked. */
function models(settings: ResolvedTritonArgs, problems: ProblemList): void {
  const { modelRepository, region, credentials, endpointUrl } = settings;
  const check = (field: string, value: unknown, pattern: RegExp, allowed: string): void => {
    if (value === undefined) problems.add(field, 'is missing', { allowed });
    else if (typeof value === 'string' && !pattern.test(value)) {
      problems.add(field, `is ${describe(value)}`, { allowed });
    }
  };
  check('modelRepository', modelRepository, LOCATION, 's3://BUCKET/PREFIX');
  // Other S3 APIs have other names of regions.
  check('region', region, endpointUrl === undefined ? /^[a-z0-9-]+$/ : /^\S+$/, 'a region such as eu-central-1');
  // Missing in programs whose types were not checked.
  const given = credentials as typeof credentials | undefined;
  if (given?.kind === 'role') check('credentials.roleArn', given.roleArn, iamArn('role'), 'the ARN of an IAM role');
}

/** Programs whose types were not checked may have other kinds. */
function kinds(settings: ResolvedTritonArgs, problems: ProblemList): void {
  for (const [field, allowed] of Object.entries(KINDS)) {
    const given = settings[field as keyof typeof KINDS] as { kind: string } | undefined;
    if (given === undefined && field === 'autoscaling') continue;
    if (given !== undefined && (allowed as readonly string[]).includes(given.kind)) continue;
    problems.add(`${field}.kind`, given === undefined ? 'is missing' : `is ${describe(given.kind)}`, {
      allowed: formatList(allowed.map(describe)),
    });
  }
}

/** A label of a DNS name. */
const DNS_LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;
/** Leaves room for suffixes of other objects' names within the 63 characters of a label. */
const LONGEST_NAME = 40;

function names({ name, namespace, network }: CompleteOptions, problems: ProblemList): void {
  if (!DNS_LABEL.test(name) || !/^[a-z]/.test(name) || name.length > LONGEST_NAME) {
    problems.add('name', `is ${describe(name)}`, {
      allowed: `at most ${LONGEST_NAME} lower-case letters, digits and -, beginning with a letter`,
    });
  }
  const checkNamespace = (field: string, verb: string, given: string): void => {
    if (DNS_LABEL.test(given) && given.length <= 63) return;
    problems.add(field, `${verb} ${describe(given)}`, { allowed: 'at most 63 lower-case letters, digits and -' });
  };
  checkNamespace('namespace.name', 'is', namespace.name);
  checkNamespace('network.monitoringNamespace', 'is', network.monitoringNamespace);
  for (const client of network.clientNamespaces) checkNamespace('network.clientNamespaces', 'has', client);
}

function images({ image, agentImage }: CompleteOptions, problems: ProblemList): void {
  for (const [field, given] of Object.entries({ image, agentImage })) {
    if (isPinned(given)) continue;
    problems.add(field, `is ${describe(given)}, which may be another image at the next start`, {
      allowed: 'IMAGE:VERSION (not latest) or IMAGE@sha256:...',
    });
  }
}

/** Checks that whole numbers are within their limits. */
function numbers(options: CompleteOptions, problems: ProblemList): void {
  checkLimits(LIMITS, options, '', problems);
}

interface LimitsTree {
  readonly [name: string]: Limits | LimitsTree;
}

const isLimits = (one: Limits | LimitsTree): one is Limits => typeof one['minimum'] === 'number';

const isWithin = ({ minimum, maximum }: Limits, value: unknown): boolean =>
  Number.isInteger(value) && minimum <= (value as number) && (value as number) <= maximum;

const allowedBy = ({ minimum, maximum }: Limits): string => `a whole number from ${minimum} to ${maximum}`;

/** Missing values are valid. */
function checkLimits(tree: LimitsTree, values: object, path: string, problems: ProblemList): void {
  for (const [name, limits] of Object.entries(tree)) {
    const value = (values as Record<string, unknown>)[name];
    if (value === undefined) continue;
    const at = fieldPath(path, name);
    if (!isLimits(limits)) checkLimits(limits, value as object, at, problems);
    else if (!isWithin(limits, value)) problems.add(at, `is ${describe(value)}`, { allowed: allowedBy(limits) });
  }
}

function resources({ resources: of }: CompleteOptions, problems: ProblemList): void {
  if (!(of.cpu > 0)) problems.add('resources.cpu', `is ${describe(of.cpu)}`, { allowed: 'more than 0' });
  if (!(of.cpuLimit >= of.cpu)) {
    problems.add('resources.cpuLimit', `is ${describe(of.cpuLimit)}`, { allowed: `at least cpu, ${of.cpu}` });
  }
  if (of.sharedMemoryGiB >= of.memoryGiB) {
    problems.add('resources.sharedMemoryGiB', `is ${of.sharedMemoryGiB}, but shared memory is a part of memoryGiB`, {
      allowed: `less than ${of.memoryGiB}`,
    });
  }
}

function startup(settings: CompleteOptions, problems: ProblemList): void {
  if (startupSeconds(settings) >= 10) return;
  problems.add('startup', `is ${startupSeconds(settings)} s in total`, { allowed: 'at least 10 s' });
}

/** A disruption budget must keep at least one pod running, unless there is only one. */
function rollout({ rollout: of, autoscaling: scaled, replicas }: CompleteOptions, problems: ProblemList): void {
  const fewest = scaled?.minReplicas ?? replicas;
  if (fewest < 2 || of.maxUnavailable < fewest) return;
  problems.add('rollout.maxUnavailable', `is ${of.maxUnavailable} of ${fewest} replicas`, {
    allowed: `at most ${fewest - 1}`,
  });
}

function autoscaling({ autoscaling: scaled, monitoring: watched }: CompleteOptions, problems: ProblemList): void {
  if (scaled === undefined) return;
  if (scaled.minReplicas > scaled.maxReplicas) {
    problems.add('autoscaling.minReplicas', `is ${scaled.minReplicas}`, {
      allowed: `at most maxReplicas, ${scaled.maxReplicas}`,
    });
  }
  if (scaled.kind === 'custom-metrics' && watched?.alerts !== true) {
    problems.add('autoscaling.kind', 'is "custom-metrics", whose metric is a recording rule of monitoring.alerts', {
      hint: 'set monitoring.alerts to true, or use "keda"',
    });
  }
}

/** Outputs of other resources are unknown here and not checked. */
function checkCidrs(path: string, cidrs: pulumi.Input<pulumi.Input<string>[]>, problems: ProblemList): void {
  if (!Array.isArray(cidrs)) return;
  if (cidrs.length === 0) problems.add(path, 'is empty', { allowed: 'at least one, such as 10.0.0.0/16' });
  for (const cidr of cidrs) {
    const fault = typeof cidr === 'string' ? rangeFault(cidr) : undefined;
    if (fault === undefined) continue;
    problems.add(path, `has ${describe(cidr)}${fault.reason === '' ? '' : `: ${fault.reason}`}`, {
      allowed: 'ranges such as 10.0.0.0/16',
      hint: fault.hint,
    });
  }
}

function addresses({ network, exposure: exposed }: CompleteOptions, problems: ProblemList): void {
  checkCidrs('network.egressCidrs', network.egressCidrs, problems);
  if (exposed.kind !== 'cluster' && exposed.clientCidrs !== undefined) {
    checkCidrs('exposure.clientCidrs', exposed.clientCidrs, problems);
  }
  if (exposed.kind === 'internal-load-balancer') {
    checkCidrs('exposure.loadBalancerCidrs', exposed.loadBalancerCidrs, problems);
  }
  if (exposed.kind === 'ingress') checkCidrs('exposure.controllerCidrs', exposed.controllerCidrs, problems);
  // A rule of a NetworkPolicy without ports allows every port.
  if (network.egressPorts?.length === 0) {
    problems.add('network.egressPorts', 'is empty', {
      allowed: 'at least one port',
      hint: 'remove it for the default',
    });
  }
  for (const port of network.egressPorts ?? []) {
    if (isWithin(PORT_LIMITS, port)) continue;
    problems.add('network.egressPorts', `has ${describe(port)}`, { allowed: allowedBy(PORT_LIMITS) });
  }
}

/** Every client that reaches an ingress on the internet may use the GPUs, unless the controller authenticates clients. */
function exposure({ exposure: exposed }: CompleteOptions, problems: ProblemList): void {
  if (exposed.kind !== 'ingress') return;
  const { annotations = {}, tls, host, scheme } = exposed;
  if (!host.split('.').every((label) => DNS_LABEL.test(label))) {
    problems.add('exposure.host', `is ${describe(host)}`, { allowed: 'a name such as triton.example.com' });
  }
  if (tls.kind === 'secret' && Object.keys(annotations).length === 0) {
    problems.add('exposure.annotations', 'is empty, so every client would be admitted', {
      hint: 'set the annotations with which the ingress controller authenticates clients',
    });
  }
  if (tls.kind === 'acm' && scheme === 'internet-facing' && !ALB_AUTHENTICATION.some((key) => key in annotations)) {
    problems.add('exposure.annotations', 'has no authentication, but the ingress is internet-facing', {
      allowed: `one of ${ALB_AUTHENTICATION.join(', ')}`,
      hint: 'add the annotation, or set scheme to internal',
    });
  }
  if (tls.kind === 'secret' && exposed.clientCidrs !== undefined) {
    problems.add('exposure.clientCidrs', 'has no effect on a controller other than that of AWS', {
      hint: 'remove it, and limit the addresses by an annotation of the controller, such as nginx.ingress.kubernetes.io/whitelist-source-range',
    });
  }
}

/** Without a load balancer, or with one of another controller, no tags are set. */
function loadBalancerTags({ exposure: exposed, loadBalancerTags: tags }: CompleteOptions, problems: ProblemList): void {
  if (exposed.kind === 'cluster') return;
  if (exposed.kind === 'ingress' && exposed.tls.kind === 'secret') return;
  for (const [key, value] of Object.entries(tags)) {
    const problem = findTagProblem(key, value);
    if (problem === undefined) continue;
    problems.add(fieldPath('loadBalancerTags', key), problem, {
      allowed: 'letters, digits, spaces and _ . : / + - @, in values also =',
      hint: 'change the tag, which is in aws:defaultTags if you use a stack file',
    });
  }
}

function monitoring({ monitoring: watched }: CompleteOptions, problems: ProblemList): void {
  if (watched === undefined) return;
  if (!watched.serviceMonitor && !watched.alerts && !watched.dashboard) {
    problems.add('monitoring', 'enables no object', {
      hint: 'remove monitoring, or set serviceMonitor, alerts or dashboard to true',
    });
  }
  if (watched.runbookUrl !== DEFAULTS.runbookUrl && !/^https?:\/\/[^\s#]+$/.test(watched.runbookUrl)) {
    problems.add('monitoring.runbookUrl', `is ${describe(watched.runbookUrl)}`, {
      allowed: 'a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md',
    });
  }
}

function slo({ slo: objectives, monitoring: watched }: CompleteOptions, problems: ProblemList): void {
  if (objectives === undefined) return;
  if (watched?.alerts !== true) {
    problems.add('slo', 'has no effect, because no alerts are created', {
      hint: 'set monitoring.alerts to true, or remove slo',
    });
  }
  const { scrapeSeconds = DEFAULTS.scrapeSeconds } = watched ?? {};
  if (objectives.p99Milliseconds !== undefined && scrapeSeconds > SLOWEST_SCRAPE_SECONDS) {
    problems.add('monitoring.scrapeSeconds', `is ${scrapeSeconds}, but slo.p99Milliseconds is set`, {
      allowed: `at most ${SLOWEST_SCRAPE_SECONDS}, because Triton's percentiles are of the last minute`,
    });
  }
  checkFraction('slo.errorRate', objectives.errorRate, ERROR_RATE_LIMITS, problems);
}

function checkFraction(
  path: string,
  value: number | undefined,
  { minimum, maximum }: Limits,
  problems: ProblemList,
): void {
  if (value === undefined || (value >= minimum && value <= maximum)) return;
  problems.add(path, `is ${describe(value)}`, { allowed: `a number from ${minimum} to ${maximum}` });
}

/** Port of OTLP over gRPC, which Triton does not support. */
const OTLP_GRPC_PORT = '4317';

function tracing({ tracing: traced }: CompleteOptions, problems: ProblemList): void {
  if (traced === undefined) return;
  const { otlpEndpoint, sampleRate } = traced;
  const isUrl = /^https?:\/\/[^\s/?#@$]+(\/[^\s?#$]*)?$/.test(otlpEndpoint) && URL.canParse(otlpEndpoint);
  if (!isUrl || otlpEndpoint.endsWith('/v1/traces')) {
    problems.add('tracing.otlpEndpoint', `is ${describe(otlpEndpoint)}`, {
      allowed: 'a URL without /v1/traces, such as http://collector.monitoring.svc:4318',
    });
  } else if (new URL(otlpEndpoint).port === OTLP_GRPC_PORT) {
    problems.add('tracing.otlpEndpoint', `has port ${OTLP_GRPC_PORT}, on which collectors receive gRPC`, {
      hint: 'set the port on which the collector receives OTLP over HTTP, which is usually 4318',
    });
  }
  checkFraction('tracing.sampleRate', sampleRate, SAMPLE_RATE_LIMITS, problems);
}

/** Arguments that only this package sets, because other objects depend on them. */
const OWN_ARGUMENTS = [
  'model-repository',
  'model-control-mode',
  'load-model',
  'strict-readiness',
  'exit-on-error',
  'exit-timeout-secs',
  'http-port',
  'grpc-port',
  'metrics-port',
  'allow-metrics',
  'allow-gpu-metrics',
  'http-restricted-api',
  'grpc-restricted-protocol',
];

/** Arguments that stop metrics, and what needs these. */
const STOPPED_METRICS = [
  // Without these counters Triton stops those of requests, too.
  ['--metrics-config=counter_latencies=false', 'the counters of alerts and autoscaling'],
  ['--metrics-config=summary_latencies=false', 'the percentiles of the dashboard and of slo'],
  ['--metrics-config=summary_quantiles=', 'the percentiles of the dashboard and of slo'],
] as const;

function extraArguments({ extraArguments: given }: CompleteOptions, problems: ProblemList): void {
  for (const argument of given) {
    const stopped = STOPPED_METRICS.find(([flag]) => argument.startsWith(flag))?.[1];
    if (stopped !== undefined) {
      problems.add('extraArguments', `has ${describe(argument)}, which stops ${stopped}`, { hint: 'remove it' });
    }
    const name = /^--([a-z0-9-]+)/.exec(argument)?.[1];
    if (name !== undefined && !OWN_ARGUMENTS.includes(name)) continue;
    problems.add('extraArguments', `has ${describe(argument)}`, {
      allowed: `--NAME=VALUE, but not ${formatList(OWN_ARGUMENTS)}`,
    });
  }
}

/** Variables that only this package sets. */
const OWN_VARIABLES = /^(AWS_.*|POD_NAME|HOME|USER)$/;

function environment({ environment: given, secretEnvironment }: CompleteOptions, problems: ProblemList): void {
  for (const name of Object.keys({ ...given, ...secretEnvironment })) {
    if (/^[A-Za-z_]\w*$/.test(name) && !OWN_VARIABLES.test(name)) continue;
    problems.add('environment', `has ${describe(name)}`, {
      allowed: 'letters, digits and _, but not AWS_*, POD_NAME, HOME, USER',
    });
  }
}
