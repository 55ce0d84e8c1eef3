import { Deployment } from '@pulumi/kubernetes/apps/v1';
import type { input } from '@pulumi/kubernetes/types';
import type * as pulumi from '@pulumi/pulumi';
import { type SecretNames, VOLUME_MOUNTS, environment, flags, volumes } from './environment';
import { hasDigest } from './image';
import { PORTS, type Part, USER_ID, labels, selectorLabels } from './names';
import { resourceRequirements, scheduling } from './scheduling';
import type { TritonSettings } from './settings';
import {
  MIN_READY_SECONDS,
  STARTUP_PERIOD_SECONDS,
  graceSeconds,
  podReadySeconds,
  rolloutTimeouts,
  startupSeconds,
} from './timing';

type PodSpec = input.core.v1.PodSpec;
type Container = input.core.v1.Container;

/**
 * Triton wants the folder for downloads empty. A container that is restarted in its pod finds what the one before it left.
 * `exec`: so that the stop signal reaches the server.
 */
const START = ['/bin/sh', '-c', 'find "$TRITON_AWS_MOUNT_DIRECTORY" -mindepth 1 -delete; exec "$@"', 'start'];

/** NVIDIA's own start of its images: it finds the libraries that fit the driver. */
const PROGRAM = ['/opt/nvidia/nvidia_entrypoint.sh', 'tritonserver'];

/** What a Deployment's pods run with: the secrets and the service account have to be there first. */
export interface DeploymentNeeds {
  serviceAccount: pulumi.Input<string>;
  secrets: SecretNames;
}

export function createDeployment(part: Part, needs: DeploymentNeeds): Deployment {
  const { settings, namespace, options } = part;
  const { name, autoscaling } = settings;
  return new Deployment(
    name,
    {
      metadata: { name, namespace, labels: labels(name) },
      spec: {
        replicas: autoscaling?.minReplicas ?? settings.replicas,
        selector: { matchLabels: selectorLabels(name) },
        strategy: { type: 'RollingUpdate', rollingUpdate: rollingUpdate(settings) },
        minReadySeconds: MIN_READY_SECONDS,
        progressDeadlineSeconds: podReadySeconds(settings) + graceSeconds(settings),
        revisionHistoryLimit: 3,
        template: { metadata: { labels: labels(name) }, spec: podSpec(settings, needs) },
      },
    },
    {
      ...options,
      // The autoscaler's number is not to be set back by every "pulumi up".
      ...(autoscaling === undefined ? {} : { ignoreChanges: ['spec.replicas'] }),
      // "pulumi up" waits until the pods are ready, which for machines that start with the pods takes longer than its default.
      customTimeouts: rolloutTimeouts(settings),
    },
  );
}

/** In place works with no spare GPU: a pod ends, and its successor gets what it had. */
function rollingUpdate({ rollout }: TritonSettings): { maxSurge: number; maxUnavailable: number } {
  return rollout.strategy === 'surge'
    ? { maxSurge: 1, maxUnavailable: 0 }
    : { maxSurge: 0, maxUnavailable: rollout.maxUnavailable };
}

function podSpec(settings: TritonSettings, { serviceAccount, secrets }: DeploymentNeeds): PodSpec {
  const { runtimeClassName, priorityClassName } = settings;
  return {
    serviceAccountName: serviceAccount,
    automountServiceAccountToken: false,
    // Variables that Kubernetes makes up for each Service of the namespace (TRITON_PORT and so on) are none of Triton's.
    enableServiceLinks: false,
    ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
    ...(priorityClassName === undefined ? {} : { priorityClassName }),
    terminationGracePeriodSeconds: graceSeconds(settings),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER_ID,
      runAsGroup: USER_ID,
      // Then the volumes, and the token for the role, can be read by that user.
      fsGroup: USER_ID,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    ...scheduling(settings),
    containers: [container(settings, secrets)],
    volumes: volumes(settings),
  };
}

function container(settings: TritonSettings, secrets: SecretNames): Container {
  return {
    name: 'triton',
    image: settings.image,
    // A tag may be moved, and then all pods are to run the same. A digest may not: no registry is asked at a restart.
    imagePullPolicy: hasDigest(settings.image) ? 'IfNotPresent' : 'Always',
    command: START,
    args: [...PROGRAM, ...flags(settings)],
    env: environment(settings, secrets),
    ports: Object.entries(PORTS).map(([portName, containerPort]) => ({ name: portName, containerPort })),
    ...probes(settings),
    // It goes on serving until no Service or load balancer sends it requests any more; only then is it told to end.
    lifecycle: { preStop: { sleep: { seconds: settings.shutdown.drainSeconds } } },
    resources: resourceRequirements(settings),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: VOLUME_MOUNTS,
  };
}

type Probes = Pick<input.core.v1.Container, 'startupProbe' | 'readinessProbe' | 'livenessProbe'>;

const READY = { path: '/v2/health/ready', port: 'http' };
const LIVE = { path: '/v2/health/live', port: 'http' };

/** When the server is started, when it gets requests, and when it is given up. */
export function probes(settings: Pick<TritonSettings, 'startup'>): Probes {
  return {
    // The HTTP port opens when the models of the start are loaded, so until then nothing else is asked.
    startupProbe: {
      httpGet: READY,
      periodSeconds: STARTUP_PERIOD_SECONDS,
      timeoutSeconds: 5,
      failureThreshold: Math.ceil(startupSeconds(settings) / STARTUP_PERIOD_SECONDS),
    },
    readinessProbe: { httpGet: READY, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
    // Slower than readiness: a server that is only busy is to be left alone, not restarted with all of its models.
    livenessProbe: { httpGet: LIVE, periodSeconds: 15, timeoutSeconds: 10, failureThreshold: 6 },
  };
}
