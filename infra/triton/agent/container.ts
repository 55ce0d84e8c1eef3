import { ConfigMap } from '@pulumi/kubernetes/core/v1';
import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { AGENT_CONTAINER } from '../../../src/release/agent-api';
import { buildTarget } from '../builder';
import { hasDigest } from '../image';
import { AGENT_PORT, type ComponentContext, labels } from '../names';
import { CONTAINER_SECURITY } from '../pod-security';
import {
  NO_METADATA,
  plain,
  proxyVariables,
  SCRATCH_DIRECTORY,
  staticKeys,
  type SecretNames,
} from '../server-container';
import { AGENT_REQUESTS, modelDiskBytes, type ServerSettings } from '../settings';
import { leaveSeconds, loadSeconds } from '../timeouts';
import { configMapFiles, NODE_FLAGS } from './program';

type Container = input.core.v1.Container;
type EnvVar = input.core.v1.EnvVar;
type Volume = input.core.v1.Volume;

const PROGRAM_DIRECTORY = '/opt/agent';
const TOKEN_DIRECTORY = '/var/run/secrets/aws';

/**
 * Creates the ConfigMap with the program of the agent. Pulumi gives a changed ConfigMap a new name, so a changed program
 * rolls the pods out, and pods that still run keep the ConfigMap that they started with until the rollout has succeeded.
 * A name with a hash of the content would clash with that of a ConfigMap that a failed update has left behind.
 * @returns its name
 */
export function createAgentProgram({ settings, namespace, options }: ComponentContext): pulumi.Output<string> {
  const metadata = { namespace, labels: labels(settings.name) };
  return new ConfigMap(`${settings.name}-agent`, { metadata, ...configMapFiles(), immutable: true }, options).metadata
    .name;
}

/**
 * The agent as a native sidecar: it starts before Triton and ends after it. Without a startup probe, so that the kubelet
 * pulls Triton's image while the agent downloads models. Without a liveness probe, because supervise.sh restarts the
 * program if it ends, and a slow download is not a fault.
 *
 * Without a readiness probe, because a pod whose agent has ended serves on. That of Triton's container is probe.sh.
 */
export function agentContainer(settings: ServerSettings, secrets: SecretNames): Container {
  const { image } = settings.agent;
  const target = buildTarget(settings);
  const { credentials, endpointUrl, modelRepository, region } = settings;
  return {
    name: AGENT_CONTAINER,
    image,
    imagePullPolicy: hasDigest(image) ? 'IfNotPresent' : 'Always',
    restartPolicy: 'Always',
    command: ['/bin/sh', `${PROGRAM_DIRECTORY}/supervise.sh`],
    args: [
      'node',
      ...NODE_FLAGS,
      `${PROGRAM_DIRECTORY}/agent.cjs`,
      '--bucket',
      modelRepository,
      '--directory',
      SCRATCH_DIRECTORY,
      '--disk-bytes',
      String(modelDiskBytes(settings.resources.scratchGiB)),
      '--gpus',
      String(settings.gpusPerPod),
      '--load-timeout',
      String(loadTimeoutSeconds(settings)),
      '--leave-seconds',
      String(leaveSeconds(settings)),
      ...(target === undefined ? [] : ['--target', target]),
    ],
    env: [
      ...plain({ HOME: '/', AWS_REGION: region, ...NO_METADATA }),
      ...(endpointUrl === undefined ? [] : plain({ AWS_ENDPOINT_URL_S3: endpointUrl })),
      ...(credentials.roleArn === undefined ? staticKeys(secrets) : roleVariables(credentials.roleArn)),
      ...proxyVariables(settings, secrets),
    ],
    ports: [AGENT_PORT],
    resources: AGENT_RESOURCES,
    securityContext: CONTAINER_SECURITY,
    volumeMounts: [
      { name: 'agent', mountPath: PROGRAM_DIRECTORY, readOnly: true },
      { name: 'scratch', mountPath: SCRATCH_DIRECTORY },
      ...(credentials.roleArn === undefined ? [] : [{ name: 'aws-token', mountPath: TOKEN_DIRECTORY, readOnly: true }]),
    ],
  };
}

/**
 * The program takes about 110 MB. The rest is for files that were just written, which count as memory of the container
 * until the disk has them. It may use idle cores to verify what it downloads; if Triton needs them, Triton has the larger
 * share. Its disk is that of Triton's container, but for its log.
 */
const AGENT_RESOURCES = {
  requests: {
    cpu: `${AGENT_REQUESTS.cpu * 1000}m`,
    memory: `${AGENT_REQUESTS.memoryMiB}Mi`,
    'ephemeral-storage': '128Mi',
  },
  limits: { cpu: '4', memory: '512Mi', 'ephemeral-storage': '128Mi' },
};

/** The agent's default, which is generous for one model. */
const LEAST_LOAD_SECONDS = 600;

/** Time to load one model, with its warm-up. */
const loadTimeoutSeconds = (settings: ServerSettings): number => Math.max(LEAST_LOAD_SECONDS, loadSeconds(settings));

const roleVariables = (roleArn: pulumi.Input<string>): EnvVar[] =>
  plain({ AWS_ROLE_ARN: roleArn, AWS_WEB_IDENTITY_TOKEN_FILE: `${TOKEN_DIRECTORY}/token` });

/**
 * The program, and the token for the AWS role. EKS would give a token to every container of a service account with an
 * annotation; this volume is only in the agent's container, because models are code.
 */
export function agentVolumes({ credentials }: ServerSettings, program: pulumi.Input<string>): Volume[] {
  const token = { audience: 'sts.amazonaws.com', expirationSeconds: 3600, path: 'token' };
  return [
    { name: 'agent', configMap: { name: program } },
    ...(credentials.roleArn === undefined
      ? []
      : [{ name: 'aws-token', projected: { sources: [{ serviceAccountToken: token }] } }]),
  ];
}
