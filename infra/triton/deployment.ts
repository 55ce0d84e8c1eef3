import { Deployment } from '@pulumi/kubernetes/apps/v1';
import type { input } from '@pulumi/kubernetes/types';
import type * as pulumi from '@pulumi/pulumi';
import { agentContainer, agentVolumes } from './agent/container';
import { readScript } from './agent/program';
import {
  type SecretNames,
  environment,
  serverArguments,
  SCRATCH_DIRECTORY,
  startCommand,
  VOLUME_MOUNTS,
  volumes,
} from './server-container';
import { hasDigest } from './image';
import { PORTS, TAKES_BACK, TRITON_CONTAINER, type ComponentContext, labels, selectorLabels } from './names';
import { CONTAINER_SECURITY, POD_SECURITY } from './pod-security';
import { resourceRequirements, scheduling } from './scheduling';
import type { ServerSettings } from './settings';
import {
  READINESS,
  MIN_READY_SECONDS,
  SERVER_START_SECONDS,
  STARTUP_PERIOD_SECONDS,
  graceSeconds,
  podReadySeconds,
  rolloutTimeouts,
} from './timeouts';

type PodSpec = input.core.v1.PodSpec;
type Container = input.core.v1.Container;

/** NVIDIA's entry point of the image, which selects the libraries that match the driver. */
const PROGRAM = ['/opt/nvidia/nvidia_entrypoint.sh', 'tritonserver'];

/** Objects of the pods, which must exist before the Deployment. */
export interface DeploymentNeeds {
  serviceAccount: pulumi.Input<string>;
  secrets: SecretNames;
  agentProgram: pulumi.Input<string>;
}

export function createDeployment(part: ComponentContext, needs: DeploymentNeeds): Deployment {
  const { settings, namespace, options } = part;
  const { name, autoscaling } = settings;
  return new Deployment(
    name,
    {
      metadata: {
        name,
        namespace,
        labels: labels(name),
        annotations: TAKES_BACK,
      },
      spec: {
        replicas:
          autoscaling !== undefined && settings.omitReplicas
            ? undefined
            : (autoscaling?.minReplicas ?? settings.replicas),
        selector: { matchLabels: selectorLabels(name) },
        strategy: { type: 'RollingUpdate', rollingUpdate: settings.rollout },
        minReadySeconds: MIN_READY_SECONDS,
        progressDeadlineSeconds: podReadySeconds(settings) + graceSeconds(settings),
        revisionHistoryLimit: 3,
        template: { metadata: { labels: labels(name) }, spec: podSpec(settings, needs) },
      },
    },
    {
      ...options,
      // Keeps "pulumi up" from resetting the number of replicas that the autoscaler chose.
      ignoreChanges: autoscaling === undefined ? undefined : ['spec.replicas'],
      // "pulumi up" waits until the pods are ready. With nodes that must start first this exceeds its default timeout.
      customTimeouts: rolloutTimeouts(settings),
    },
  );
}

function podSpec(settings: ServerSettings, { serviceAccount, secrets, agentProgram }: DeploymentNeeds): PodSpec {
  const { pod } = settings;
  return {
    serviceAccountName: serviceAccount,
    automountServiceAccountToken: false,
    // Triton must not see the variables that Kubernetes adds for each Service of the namespace (TRITON_PORT and so on).
    enableServiceLinks: false,
    runtimeClassName: pod.runtimeClassName,
    priorityClassName: pod.priorityClassName,
    imagePullSecrets: pod.imagePullSecrets.length === 0 ? undefined : pod.imagePullSecrets.map((name) => ({ name })),
    terminationGracePeriodSeconds: graceSeconds(settings),
    securityContext: POD_SECURITY,
    ...scheduling(settings),
    initContainers: [agentContainer(settings, secrets)],
    containers: [container(settings, secrets)],
    volumes: [...volumes(settings), ...agentVolumes(settings, agentProgram)],
  };
}

function container(settings: ServerSettings, secrets: SecretNames): Container {
  return {
    name: TRITON_CONTAINER,
    image: settings.image,
    // A tag can be moved, so every start pulls it, which keeps all pods on the same image. A digest cannot, so a
    // restart does not need the registry.
    imagePullPolicy: hasDigest(settings.image) ? 'IfNotPresent' : 'Always',
    command: startCommand(settings),
    args: [...PROGRAM, ...serverArguments(settings)],
    env: environment(settings, secrets),
    ports: Object.entries(PORTS).map(([portName, containerPort]) => ({ name: portName, containerPort })),
    ...PROBES,
    // The container keeps serving until Services and load balancers have removed it, and only then receives the stop
    // signal.
    lifecycle: { preStop: { sleep: { seconds: settings.drainSeconds } } },
    resources: resourceRequirements(settings),
    securityContext: CONTAINER_SECURITY,
    volumeMounts: VOLUME_MOUNTS,
  };
}

type Probes = Pick<input.core.v1.Container, 'startupProbe' | 'readinessProbe' | 'livenessProbe'>;

const LIVE = { path: '/v2/health/live', port: 'http' };

/** Probes that decide when a pod has started, when it gets requests, and when it is restarted. */
const PROBES: Probes = {
  // The other probes start after this one succeeded. Triton starts without models. The agent loads them.
  startupProbe: {
    httpGet: LIVE,
    periodSeconds: STARTUP_PERIOD_SECONDS,
    timeoutSeconds: 5,
    failureThreshold: SERVER_START_SECONDS / STARTUP_PERIOD_SECONDS,
  },
  readinessProbe: {
    // Whether Triton serves what the agent has noted, which needs no agent.
    exec: { command: ['/bin/sh', '-c', readScript('probe.sh'), 'probe', SCRATCH_DIRECTORY] },
    periodSeconds: READINESS.periodSeconds,
    timeoutSeconds: 5,
    failureThreshold: READINESS.failures,
  },
  // Slower than readiness, because restarting a server that is only busy would reload all of its models.
  livenessProbe: { httpGet: LIVE, periodSeconds: 15, timeoutSeconds: 10, failureThreshold: 6 },
};
