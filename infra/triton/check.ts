import { describe, listed, ProblemList } from '../../scripts/lib/model/problems';
import { isPinned } from './image';
import type { TritonSettings } from './settings';
import { startupSeconds } from './timing';

type Rule = (settings: TritonSettings, problems: ProblemList) => void;

/**
 * The settings, once every rule was asked.
 * @throws UserError with all problems
 */
export function checkArguments(settings: TritonSettings): TritonSettings {
  const problems = new ProblemList(`TritonServer ${settings.name}`);
  addProblems(settings, problems);
  problems.refuse(`${problems.file} cannot be made`);
  return settings;
}

/** Asks every rule; fields are named as in TritonServerArgs. */
export function addProblems(settings: TritonSettings, problems: ProblemList): void {
  for (const rule of RULES) rule(settings, problems);
}

const RULES: readonly Rule[] = [
  names,
  image,
  numbers,
  resources,
  startup,
  rollout,
  autoscaling,
  addresses,
  exposure,
  monitoring,
  extraArguments,
  environment,
];

/** A label of a DNS name. */
const DNS_LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;
/** Room for what names of other objects have behind it, within the 63 characters of a label. */
const LONGEST_NAME = 40;

function names({ name, namespace }: TritonSettings, problems: ProblemList): void {
  if (!DNS_LABEL.test(name) || !/^[a-z]/.test(name) || name.length > LONGEST_NAME) {
    problems.add('name', `is ${describe(name)}`, {
      allowed: `at most ${LONGEST_NAME} lower-case letters, digits and -, beginning with a letter`,
    });
  }
  if (!DNS_LABEL.test(namespace.name) || namespace.name.length > 63) {
    problems.add('namespace.name', `is ${describe(namespace.name)}`, {
      allowed: 'at most 63 lower-case letters, digits and -',
    });
  }
}

function image({ image: given }: TritonSettings, problems: ProblemList): void {
  if (isPinned(given)) return;
  problems.add('image', `is ${describe(given)}, which may be another program tomorrow`, {
    allowed: 'IMAGE:VERSION (not latest) or IMAGE@sha256:...',
  });
}

/** Numbers that have to be whole: path, value, smallest, largest. */
function numbers(settings: TritonSettings, problems: ProblemList): void {
  const { resources: of, startup: start, shutdown, monitoring: watched, autoscaling: scaled } = settings;
  const table: [string, number | undefined, number, number][] = [
    ['replicas', settings.replicas, 0, 1000],
    ['gpusPerPod', settings.gpusPerPod, 0, 16],
    ['resources.sharedMemoryGiB', of.sharedMemoryGiB, 1, 10_000],
    ['resources.memoryGiB', of.memoryGiB, 1, 10_000],
    ['resources.scratchGiB', of.scratchGiB, 1, 100_000],
    ['startup.downloadSeconds', start.downloadSeconds, 0, 86_400],
    ['startup.loadSeconds', start.loadSeconds, 0, 86_400],
    ['startup.warmUpSeconds', start.warmUpSeconds, 0, 86_400],
    ['shutdown.drainSeconds', shutdown.drainSeconds, 1, 3600],
    ['shutdown.exitTimeoutSeconds', shutdown.exitTimeoutSeconds, 0, 3600],
    ['rollout.maxUnavailable', settings.rollout.maxUnavailable, 1, 1000],
    // Reading takes up to 10 s.
    ['monitoring.scrapeSeconds', watched?.scrapeSeconds, 10, 300],
    ['autoscaling.minReplicas', scaled?.minReplicas, 1, 1000],
    ['autoscaling.maxReplicas', scaled?.maxReplicas, 1, 1000],
    ['autoscaling.queueMilliseconds', scaled?.queueMilliseconds, 1, 600_000],
    // Kubernetes' own limit.
    ['autoscaling.scaleDownAfterSeconds', scaled?.scaleDownAfterSeconds, 0, 3600],
  ];
  for (const [path, value, smallest, largest] of table) {
    if (value === undefined || (Number.isInteger(value) && value >= smallest && value <= largest)) continue;
    problems.add(path, `is ${describe(value)}`, { allowed: `a whole number from ${smallest} to ${largest}` });
  }
}

function resources({ resources: of }: TritonSettings, problems: ProblemList): void {
  if (!(of.cpu > 0)) problems.add('resources.cpu', `is ${describe(of.cpu)}`, { allowed: 'more than 0' });
  if (!(of.cpuLimit >= of.cpu)) {
    problems.add('resources.cpuLimit', `is ${describe(of.cpuLimit)}`, { allowed: `at least cpu, ${of.cpu}` });
  }
  if (of.sharedMemoryGiB >= of.memoryGiB) {
    problems.add('resources.sharedMemoryGiB', `is ${of.sharedMemoryGiB}, and it is a part of memoryGiB`, {
      allowed: `less than ${of.memoryGiB}`,
    });
  }
}

function startup(settings: TritonSettings, problems: ProblemList): void {
  if (startupSeconds(settings) >= 10) return;
  problems.add('startup', `is ${startupSeconds(settings)} s in all`, { allowed: 'at least 10 s' });
}

/** A budget that lets all pods go is none; with a single one there is no other way. */
function rollout({ rollout: of, autoscaling: scaled, replicas }: TritonSettings, problems: ProblemList): void {
  const fewest = scaled?.minReplicas ?? replicas;
  if (fewest < 2 || of.maxUnavailable < fewest) return;
  problems.add('rollout.maxUnavailable', `is ${of.maxUnavailable} of ${fewest} replicas`, {
    allowed: `at most ${fewest - 1}`,
  });
}

function autoscaling({ autoscaling: scaled, monitoring: watched }: TritonSettings, problems: ProblemList): void {
  if (scaled === undefined) return;
  if (scaled.minReplicas > scaled.maxReplicas) {
    problems.add('autoscaling.minReplicas', `is ${scaled.minReplicas}`, {
      allowed: `at most maxReplicas, ${scaled.maxReplicas}`,
    });
  }
  if (scaled.kind === 'custom-metrics' && watched?.alerts !== true) {
    problems.add('autoscaling.kind', 'is "custom-metrics", whose metric is a recording rule of monitoring', {
      hint: 'set monitoring with alerts: true, or take "keda"',
    });
  }
}

const CIDR = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/;

/** Whether it is a range of addresses, such as 10.0.0.0/16; for IPv6 it is left to the cluster. */
function isCidr(text: string): boolean {
  if (text.includes(':')) return /\/\d{1,3}$/.test(text);
  const parts = CIDR.exec(text)?.slice(1).map(Number);
  return parts?.every((part, index) => part <= (index === 4 ? 32 : 255)) ?? false;
}

function addresses({ network, exposure: exposed }: TritonSettings, problems: ProblemList): void {
  const clients = exposed.kind === 'cluster' ? undefined : exposed.clientCidrs;
  const lists: [string, string[] | undefined][] = [
    ['network.egressCidrs', network.egressCidrs],
    ['exposure.clientCidrs', clients],
  ];
  for (const [path, list] of lists) {
    if (list?.length === 0) problems.add(path, 'is empty', { allowed: 'at least one, such as 10.0.0.0/16' });
    for (const cidr of list ?? []) {
      if (!isCidr(cidr)) problems.add(path, `has ${describe(cidr)}`, { allowed: 'ranges such as 10.0.0.0/16' });
    }
  }
  for (const port of network.egressPorts ?? []) {
    if (Number.isInteger(port) && port >= 1 && port <= 65_535) continue;
    problems.add('network.egressPorts', `has ${describe(port)}`, { allowed: 'whole numbers from 1 to 65535' });
  }
}

/** AWS's controllers take a certificate of ACM and authenticate by themselves; others take Secrets and annotations. */
function exposure({ exposure: exposed }: TritonSettings, problems: ProblemList): void {
  if (exposed.kind !== 'ingress') return;
  const { authentication, tls, host } = exposed;
  if (!host.split('.').every((label) => DNS_LABEL.test(label))) {
    problems.add('exposure.host', `is ${describe(host)}`, { allowed: 'a name such as triton.example.com' });
  }
  const wanted = authentication.kind === 'annotations' ? 'secret' : 'acm';
  if (tls.kind !== wanted) {
    problems.add('exposure.tls.kind', `is "${tls.kind}" with authentication "${authentication.kind}"`, {
      allowed: `"${wanted}"`,
    });
  }
  if (authentication.kind === 'annotations' && Object.keys(authentication.annotations).length === 0) {
    problems.add('exposure.authentication.annotations', 'is empty, so that everybody would be let in', {
      hint: 'give those by which the ingress controller authenticates',
    });
  }
}

function monitoring({ monitoring: watched }: TritonSettings, problems: ProblemList): void {
  if (watched === undefined || watched.serviceMonitor || watched.alerts || watched.dashboard) return;
  problems.add('monitoring', 'has nothing that is to be made', { hint: 'leave it out' });
}

/** Arguments that are ours to give, as other objects depend on them. */
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
  'http-restricted-api',
  'grpc-restricted-protocol',
];

function extraArguments({ extraArguments: given }: TritonSettings, problems: ProblemList): void {
  for (const argument of given) {
    const name = /^--([a-z0-9-]+)/.exec(argument)?.[1];
    if (name !== undefined && !OWN_ARGUMENTS.includes(name)) continue;
    problems.add('extraArguments', `has ${describe(argument)}`, {
      allowed: `--NAME=VALUE, but not ${listed(OWN_ARGUMENTS)}`,
    });
  }
}

/** Variables that are ours to set. */
const OWN_VARIABLES = /^(AWS_.*|TRITON_AWS_MOUNT_DIRECTORY|MODEL_CONTROL_KEY|HOME|USER)$/;

function environment({ environment: given }: TritonSettings, problems: ProblemList): void {
  for (const name of Object.keys(given)) {
    if (/^[A-Za-z_]\w*$/.test(name) && !OWN_VARIABLES.test(name)) continue;
    problems.add('environment', `has ${describe(name)}`, {
      allowed: 'letters, digits and _, but not AWS_*, TRITON_AWS_MOUNT_DIRECTORY, MODEL_CONTROL_KEY, HOME, USER',
    });
  }
}
