import { describe, fieldPath, ProblemList } from '../../src/core/problems';
import { getRelease, getVulnerabilities } from '../../src/model/triton-releases';
import { readFields, refuseUnused } from '../settings/reader';
import { TRITON_SERVER_FIELDS } from '../settings/triton-fields';
import type { TritonServerArgs } from './args';
import { findTagProblem } from './load-balancer-tags';
import { completeSettings, type CompleteSettings, type ServerSettings } from './settings';

type Rule = (settings: CompleteSettings, problems: ProblemList) => void;

/**
 * Reads the arguments of TritonServer. An argument that is undefined counts as missing.
 * @throws UserError with all problems
 */
export function readArguments(name: string, args: TritonServerArgs): ServerSettings {
  const problems = new ProblemList(`TritonServer ${name}`);
  const refuse = (): void => problems.refuse(`${problems.file} has invalid arguments`);
  checkName(name, problems);
  const values = readFields<typeof TRITON_SERVER_FIELDS, true>(TRITON_SERVER_FIELDS, { ...args }, problems);
  // Contradictions between values can be checked only if each value is valid by itself.
  refuse();
  const settings = { ...completeSettings(name, values), name };
  checkRepository(settings, problems);
  addProblems(settings, problems);
  refuse();
  return settings;
}

/** Applies the rules between settings, each of which is valid by itself. */
export function addProblems(settings: CompleteSettings, problems: ProblemList): void {
  const rules: Rule[] = [vulnerabilities, tolerations, resources, rollout, autoscaling, exposure, ingress];
  for (const rule of rules) rule(settings, problems);
}

/** Leaves room for suffixes of other objects' names within the 63 characters of a label. */
const LONGEST_NAME = 40;

function checkName(name: string, problems: ProblemList): void {
  if (/^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(name) && name.length <= LONGEST_NAME) return;
  problems.add('name', `is ${describe(name)}`, {
    allowed: `at most ${LONGEST_NAME} lower-case letters, digits and -, beginning with a letter`,
  });
}

/** The arguments about the bucket and the load balancer, which no stack file has. */
function checkRepository(settings: ServerSettings, problems: ProblemList): void {
  const { credentials, endpointUrl, region, exposure: exposed, loadBalancerTags } = settings;
  const { roleArn, accessKeyId, secretAccessKey } = credentials;
  const keys = [accessKeyId, secretAccessKey].filter((key) => key !== undefined).length;
  if (keys === 1 || (keys === 2) === (roleArn !== undefined)) {
    problems.add(
      'credentials',
      roleArn === undefined && keys === 0 ? 'is missing' : 'is incomplete or has both forms',
      {
        allowed: 'either roleArn, or accessKeyId with secretAccessKey',
      },
    );
  }
  // Other S3 APIs have other names of regions.
  if (endpointUrl === undefined && typeof region === 'string' && !/^[a-z0-9-]+$/.test(region)) {
    problems.add('region', `is ${describe(region)}`, { allowed: 'a region such as eu-central-1' });
  }
  // Without a load balancer, or with one of another controller, no tags are set.
  if (exposed.kind === 'cluster' || exposed.tlsSecretName !== undefined) return;
  for (const [key, value] of Object.entries(loadBalancerTags)) {
    const problem = findTagProblem(key, value);
    if (problem === undefined) continue;
    problems.add(fieldPath('loadBalancerTags', key), problem, {
      allowed: 'letters, digits, spaces and _ . : / + - @, in values also =',
      hint: 'change the tag, which is in aws:defaultTags if you use a stack file',
    });
  }
}

function vulnerabilities({ image, acceptedVulnerabilities: accepted }: CompleteSettings, problems: ProblemList): void {
  const release = getRelease(image);
  if (release === undefined) return;
  for (const { id, cvss, kind, fixedIn, advisory } of getVulnerabilities(release)) {
    if (accepted.includes(id)) continue;
    problems.add('image', `is Triton ${release}, which has ${id} (${kind}, CVSS ${cvss})`, {
      allowed: `${fixedIn} or newer`,
      hint: `read ${advisory}, and set image to a newer release, or add ${id} to acceptedVulnerabilities`,
    });
  }
}

function tolerations({ pod }: CompleteSettings, problems: ProblemList): void {
  for (const [index, { operator, value }] of pod.tolerations.entries()) {
    if (operator !== 'Exists' || value === undefined) continue;
    problems.add(`pod.tolerations[${index}].value`, 'is set, but the operator Exists accepts every value', {
      hint: 'remove one of them',
    });
  }
}

function resources({ resources: { sharedMemoryGiB, memoryGiB } }: CompleteSettings, problems: ProblemList): void {
  if (sharedMemoryGiB < memoryGiB) return;
  problems.add('resources.sharedMemoryGiB', `is ${sharedMemoryGiB}, but shared memory is a part of memoryGiB`, {
    allowed: `less than ${memoryGiB}`,
  });
}

/** A disruption budget must keep at least one replica running, unless there is only one. */
function rollout({ rollout: of, autoscaling: scaled, replicas }: CompleteSettings, problems: ProblemList): void {
  const fewest = scaled?.minReplicas ?? replicas;
  if (of.maxSurge === 0 && of.maxUnavailable === 0) {
    problems.add('rollout.maxUnavailable', 'is 0, and maxSurge too, so no update could replace a replica', {
      allowed: 'at least 1 in one of them',
    });
  }
  if (fewest < 2 || of.maxUnavailable < fewest) return;
  problems.add('rollout.maxUnavailable', `is ${of.maxUnavailable} of ${fewest} replicas`, {
    allowed: `at most ${fewest - 1}`,
  });
}

function autoscaling({ autoscaling: scaled }: CompleteSettings, problems: ProblemList): void {
  if (scaled === undefined || scaled.minReplicas <= scaled.maxReplicas) return;
  problems.add('autoscaling.minReplicas', `is ${scaled.minReplicas}`, {
    allowed: `at most maxReplicas, ${scaled.maxReplicas}`,
  });
}

/** Members of `exposure`, and the kinds that use them. All use controllerCidrs, which a stack fills in. */
const MEMBERS = {
  clientCidrs: 'internal-load-balancer or ingress',
  loadBalancerClass: 'internal-load-balancer',
  host: 'ingress',
  className: 'ingress',
  scheme: 'ingress',
  certificateArn: 'ingress',
  tlsSecretName: 'ingress',
  annotations: 'ingress',
} as const;

function exposure({ exposure: exposed }: CompleteSettings, problems: ProblemList): void {
  const { kind, clientCidrs, controllerCidrs } = exposed;
  const { fields } = TRITON_SERVER_FIELDS.exposure;
  for (const [name, kinds] of Object.entries(MEMBERS).filter(([, kinds]) => !kinds.includes(kind))) {
    const unused = {
      names: [name],
      because: `exposure.kind is ${kind}`,
      hint: `set exposure.kind to ${kinds}, or remove ${name}`,
    };
    refuseUnused(fields, exposed, unused, problems, 'exposure');
  }
  // Outputs of other resources are unknown here.
  if (kind !== 'cluster' && Array.isArray(controllerCidrs) && controllerCidrs.length === 0) {
    problems.add('exposure.controllerCidrs', 'is empty', {
      allowed: 'the IP ranges of the load balancer or ingress controller, ["10.0.0.0/16"]',
    });
  }
  if (kind === 'internal-load-balancer' && clientCidrs.length === 0) {
    problems.add('exposure.clientCidrs', 'is empty', { allowed: 'at least one range, ["10.0.0.0/16"]' });
  }
}

export const ALB = 'alb.ingress.kubernetes.io';

/** Annotations with which these controllers authenticate clients, and their values that do. */
const ALB_AUTHENTICATION = {
  'mutual-authentication': /"mode":\s*"verify"/,
  'jwt-validation': /\S/,
  'auth-type': /^(cognito|oidc)$/,
};

/** Annotations that settings decide. With another port, clients could send requests without TLS. */
const ALB_DECIDED = ['scheme', 'listen-ports', 'certificate-arn', 'inbound-cidrs', 'target-type'];

/** Every client that reaches an ingress on the internet may use the GPUs, unless the controller authenticates clients. */
function ingress({ exposure: exposed }: CompleteSettings, problems: ProblemList): void {
  const { kind, host, certificateArn, tlsSecretName, annotations, scheme, clientCidrs } = exposed;
  if (kind !== 'ingress') return;
  if (host === undefined) {
    problems.add('exposure.host', 'is missing, but exposure.kind is ingress', {
      allowed: 'a name such as triton.example.com',
    });
  }
  if ((certificateArn === undefined) === (tlsSecretName === undefined)) {
    problems.add('exposure', `has ${certificateArn === undefined ? 'no certificate' : 'two certificates'}`, {
      allowed: 'one of certificateArn, tlsSecretName',
    });
    return;
  }
  if (certificateArn !== undefined) {
    for (const name of ALB_DECIDED.filter((name) => `${ALB}/${name}` in annotations)) {
      problems.add(fieldPath('exposure.annotations', `${ALB}/${name}`), 'is an annotation that this package decides', {
        hint: 'remove it; scheme, certificateArn and clientCidrs are members of exposure',
      });
    }
    const isGuarded = Object.entries(ALB_AUTHENTICATION).some(([name, valid]) => {
      const value = annotations[`${ALB}/${name}`];
      // The value of an output is unknown here.
      return typeof value === 'string' ? valid.test(value) : value !== undefined;
    });
    const admitsOthers = annotations[`${ALB}/auth-on-unauthenticated-request`] === 'allow';
    if (scheme === 'internal' || (isGuarded && !admitsOthers)) return;
    problems.add('exposure.annotations', 'has no authentication, but the ingress is internet-facing', {
      allowed: `${ALB}/mutual-authentication with the mode verify, jwt-validation, or auth-type with cognito or oidc, without auth-on-unauthenticated-request: allow`,
      hint: 'add the annotation, or set scheme to internal',
    });
    return;
  }
  if (Object.keys(annotations).length === 0) {
    problems.add('exposure.annotations', 'is empty, so every client would be admitted', {
      hint: 'set the annotations with which the ingress controller authenticates clients',
    });
  }
  if (clientCidrs.length > 0) {
    problems.add('exposure.clientCidrs', 'has no effect on a controller other than that of AWS', {
      hint: 'remove it, and limit the addresses by an annotation of the controller, such as nginx.ingress.kubernetes.io/whitelist-source-range',
    });
  }
}
