import type { Report, Resource, Rule } from '../rule';
import type { Value } from '../value';
import { NODE_NAMESPACES, POD_SPEC } from './types';

/** Workloads whose pods serve requests or run until they are stopped. */
const SERVING = ['kubernetes:apps/v1:Deployment', 'kubernetes:apps/v1:StatefulSet'];

export const getPod = (resource: Resource): Value => resource.props.at(POD_SPEC[resource.type] ?? 'spec');

export const getContainers = (pod: Value): Value[] => pod.at('containers').items();

const getAllContainers = (pod: Value): Value[] => [...getContainers(pod), ...pod.at('initContainers').items()];

/** Whether a container requests GPUs or parts of GPUs. */
export function wantsGpu(container: Value): boolean {
  return ['limits', 'requests'].some((kind) =>
    container
      .at(`resources.${kind}`)
      .values()
      .some((amount) => /\.nvidia\.com\/(gpu|mig-)/.test(amount.path) && !amount.is(0, '0')),
  );
}

function podRule(
  name: string,
  description: string,
  check: (pod: Value, report: (at: Value, fix: string, problem?: string) => void) => void,
  types: readonly string[] = Object.keys(POD_SPEC),
): Rule {
  const each = (resource: Resource, report: Report): void => {
    check(getPod(resource), (at, fix, problem) => report({ resource, at, fix, problem }));
  };
  return { name, description, each: { types, check: each } };
}

export const podRules: readonly Rule[] = [
  podRule(
    'pod-images-pinned',
    'Every image has the tag of a version or a digest, never the tag latest.',
    (pod, report) => {
      for (const container of getAllContainers(pod)) {
        const at = container.at('image');
        const image = at.text();
        if (image === undefined || /@sha256:[0-9a-f]{64}$/.test(image)) continue;
        const tag = /:([^:/]+)$/.exec(image)?.[1];
        if (tag === undefined || tag === 'latest') report(at, 'add the tag of a version, or a digest');
      }
    },
  ),
  podRule(
    'pod-probes',
    'Every serving container has a readiness and a liveness probe, and with a GPU also a startup probe.',
    (pod, report) => {
      for (const container of getContainers(pod)) {
        const probes = ['readinessProbe', 'livenessProbe', ...(wantsGpu(container) ? ['startupProbe'] : [])];
        for (const at of probes.map((probe) => container.at(probe))) {
          if (at.isMissing()) report(at, 'add it');
        }
      }
    },
    SERVING,
  ),
  podRule('pod-resources', 'Every container requests CPU and memory, and limits its memory.', (pod, report) => {
    for (const container of getAllContainers(pod)) {
      for (const path of ['requests.cpu', 'requests.memory', 'limits.memory']) {
        const at = container.at(`resources.${path}`);
        if (at.isMissing()) report(at, 'set it');
      }
    }
  }),
  podRule(
    'pod-no-plain-secrets',
    'Every secret in the environment of a container comes from a Secret, not from the text of the pod.',
    (pod, report) => {
      for (const container of getAllContainers(pod)) {
        for (const variable of container.at('env').items()) {
          const name = variable.at('name').text() ?? '';
          if (!/(SECRET|PASSWORD|TOKEN|ACCESS_KEY)(_ID|_KEY)?$/.test(name) || variable.at('value').isMissing())
            continue;
          report(
            variable.at('value'),
            'read it from a Secret with valueFrom.secretKeyRef',
            `${name} is set in plain text`,
          );
        }
      }
    },
  ),
  podRule(
    'triton-control-guarded',
    'Every Triton server that loads models on request requires a key for such requests over HTTP and gRPC, because a model can contain code.',
    (pod, report) => {
      for (const container of getContainers(pod)) {
        const args = container.at('args');
        const words = args.items();
        if (!words.some((word) => word.is('--model-control-mode=explicit'))) continue;
        for (const flag of ['http-restricted-api', 'grpc-restricted-protocol']) {
          const guard = new RegExp(`^--${flag}=([\\w-]+,)*model-repository[,:]`);
          if (!words.some((word) => word.isUnknown() || guard.test(word.text() ?? ''))) {
            report(args, `add --${flag}=model-repository,...:HEADER=KEY`, 'every client can use its model control API');
          }
        }
      }
    },
  ),
  restrictedRule(),
  podRule(
    'pod-no-api-token',
    'No serving pod has a token of the Kubernetes API, which it does not use.',
    (pod, report) => {
      const at = pod.at('automountServiceAccountToken');
      if (!at.mayBe(false)) report(at, 'set it to false');
    },
    SERVING,
  ),
];

/** Checks the Pod Security Standard "restricted", and nothing beyond it. */
function restrictedRule(): Rule {
  return {
    name: 'pod-restricted',
    description:
      'Every pod meets the Pod Security Standard "restricted": no root, no capabilities, no privileges, no access to the host. Pods in the namespaces of node agents are exempt.',
    each: {
      types: Object.keys(POD_SPEC),
      check: (resource, report) => {
        if (resource.props.at('metadata.namespace').is(...NODE_NAMESPACES)) return;
        const pod = getPod(resource);
        for (const name of ['hostNetwork', 'hostPID', 'hostIPC']) {
          const at = pod.at(name);
          if (at.is(true)) report({ resource, at, fix: 'remove it' });
        }
        for (const volume of pod.at('volumes').items()) {
          const at = volume.at('hostPath');
          if (!at.isMissing() && !at.isUnknown())
            report({ resource, at, fix: 'use an emptyDir or a PersistentVolumeClaim' });
        }
        for (const container of getAllContainers(pod)) checkContainer(resource, pod, container, report);
      },
    },
  };
}

function checkContainer(resource: Resource, pod: Value, container: Value, report: Report): void {
  const context = container.at('securityContext');
  /** The container's own setting, otherwise the setting of the pod. */
  const effective = (path: string): Value => {
    const own = context.at(path);
    return own.isMissing() && !pod.at(`securityContext.${path}`).isMissing() ? pod.at(`securityContext.${path}`) : own;
  };
  const demand = (at: Value, right: boolean, fix: string): void => {
    if (!right) report({ resource, at, fix });
  };
  const privileged = context.at('privileged');
  demand(privileged, !privileged.is(true), 'remove it');
  const escalation = context.at('allowPrivilegeEscalation');
  demand(escalation, escalation.mayBe(false), 'set it to false');
  const root = effective('runAsNonRoot');
  demand(root, root.mayBe(true), 'set it to true');
  const user = effective('runAsUser');
  demand(user, !user.is(0), 'use a user other than root');
  const seccomp = effective('seccompProfile.type');
  demand(seccomp, seccomp.mayBe('RuntimeDefault', 'Localhost'), 'set it to RuntimeDefault');
  const drop = context.at('capabilities.drop');
  demand(drop, drop.mayInclude('ALL'), 'set it to ["ALL"]');
  for (const added of context.at('capabilities.add').items()) {
    demand(added, added.mayBe('NET_BIND_SERVICE'), 'remove it');
  }
  for (const port of container.at('ports').items()) {
    const at = port.at('hostPort');
    demand(at, at.isMissing() || at.isUnknown() || at.is(0), 'remove it');
  }
}
