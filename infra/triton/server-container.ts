import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { withEndpoint } from '../../src/release/location';
import { guardFlags } from '../../src/triton/control-key';
import { CPU_VARIABLES, LOAD_ALL_FLAG, RAISE_STACK_LIMIT, SERVING_FLAGS } from '../../src/triton/serving';
import { readScript } from './agent/program';
import { SUMMARY_FLAGS } from './monitoring/latency';
import type { ResolvedTritonArgs } from './settings';
import { POD_NAME_VARIABLE, traceFlags } from './tracing';

type EnvVar = input.core.v1.EnvVar;
type NamedVariable = EnvVar & { name: string };

/** Names of the Secrets that the container reads. */
export interface SecretNames {
  /** Secret with accessKeyId and secretAccessKey, for static keys only. */
  credentials?: pulumi.Input<string>;
  /** Secret with key. With an agent, no container reads it. */
  modelControl: pulumi.Input<string>;
  /** Secret with a key for each variable of `secretEnvironment`, if there are any. */
  environment?: pulumi.Input<string>;
}

/** Environment variables of Triton's container. With an agent, the container has no access to AWS. */
export function environment(settings: ResolvedTritonArgs, secrets: SecretNames): EnvVar[] {
  return [
    ...(settings.agent === undefined
      ? plain({ TRITON_AWS_MOUNT_DIRECTORY: SCRATCH_DIRECTORY, AWS_DEFAULT_REGION: settings.region, ...NO_METADATA })
      : []),
    ...plain({
      // The root file system is read-only and has no entry for our user.
      HOME: '/tmp',
      USER: 'triton',
      ...CPU_VARIABLES,
    }),
    ...(settings.agent === undefined
      ? [...staticKeys(secrets), fromSecret(SERVER_CONTROL_KEY_VARIABLE, secrets.modelControl, 'key')]
      : []),
    ...(settings.tracing === undefined
      ? []
      : [{ name: POD_NAME_VARIABLE, valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }]),
    ...ownVariables(settings, secrets),
  ];
}

const PROXY = /^(https_proxy|no_proxy)$/i;

/** Variables of the stack with which the agent finds the proxy to S3. */
export const proxyVariables = (settings: ResolvedTritonArgs, secrets: SecretNames): EnvVar[] =>
  ownVariables(settings, secrets).filter(({ name }) => PROXY.test(name));

const ownVariables = (settings: ResolvedTritonArgs, secrets: SecretNames): NamedVariable[] => [
  ...plain(settings.environment),
  ...Object.keys(settings.secretEnvironment).map((name) => fromSecret(name, secrets.environment ?? '', name)),
];

/** A container must use the role or keys of the pod, never the credentials of the node. */
export const NO_METADATA = { AWS_EC2_METADATA_DISABLED: 'true' } as const;

/** The access key, if the repository has one. With a role, EKS adds the path of its token to Triton's container. */
export const staticKeys = ({ credentials }: SecretNames): EnvVar[] =>
  credentials === undefined
    ? []
    : [
        fromSecret('AWS_ACCESS_KEY_ID', credentials, 'accessKeyId'),
        fromSecret('AWS_SECRET_ACCESS_KEY', credentials, 'secretAccessKey'),
      ];

export function plain(variables: Record<string, pulumi.Input<string>>): NamedVariable[] {
  return Object.entries(variables).map(([name, value]) => ({ name, value }));
}

function fromSecret(name: string, secret: pulumi.Input<string>, key: string): NamedVariable {
  return { name, valueFrom: { secretKeyRef: { name: secret, key } } };
}

/** Environment variable with the model control key. A variable, so that the Deployment does not contain the key. */
const SERVER_CONTROL_KEY_VARIABLE = 'MODEL_CONTROL_KEY';

/**
 * The program of the container. Triton requires an empty download folder, but a restarted container finds the files of its
 * predecessor in the pod. `exec`, so that the stop signal reaches the server.
 */
export function startCommand(settings: ResolvedTritonArgs): string[] {
  const before = `${gpuCheck(settings)}${RAISE_STACK_LIMIT}`;
  return settings.agent === undefined
    ? ['/bin/sh', '-c', `${before}find "$TRITON_AWS_MOUNT_DIRECTORY" -mindepth 1 -delete; exec "$@"`, 'start']
    : ['/bin/sh', '-c', `${before}\n${readScript('start-triton.sh')}`, SCRATCH_DIRECTORY];
}

/**
 * Ends the container if it sees too few GPUs. Where GPUs are shared, a pod may get two slices of the same GPU, which is
 * listed once: https://gitlab.com/nvidia/kubernetes/device-plugin/-/issues/8 (2026-11-27).
 */
function gpuCheck({ gpusPerPod, sharedGpus }: ResolvedTritonArgs): string {
  if (gpusPerPod === 0) return '';
  return `gpus=${gpusPerPod}\nleast=${sharedGpus ? 1 : gpusPerPod}\n${readScript('require-gpus.sh')}`;
}

/**
 * After this time clients of gRPC open another connection. The Service chooses a pod for each connection, so a client that
 * kept one forever would never reach a pod that was added. Without a grace period in Triton's arguments, requests and streams
 * that are open continue (docs/decisions.md, "Connections of gRPC end by age").
 */
const GRPC_CONNECTION_MS = 60_000;

/** The arguments of tritonserver. */
export function serverArguments(settings: ResolvedTritonArgs): pulumi.Input<string>[] {
  const { agent } = settings;
  const repository = pulumi
    .all([settings.modelRepository, settings.endpointUrl])
    .apply(([location, endpoint]) => withEndpoint(location, endpoint));
  return [
    agent === undefined
      ? pulumi.interpolate`--model-repository=${repository}`
      : `--model-repository=${SCRATCH_DIRECTORY}/models`,
    ...SERVING_FLAGS,
    // An agent loads the models of its release.
    ...(agent === undefined ? [LOAD_ALL_FLAG] : []),
    `--exit-timeout-secs=${settings.shutdown.exitTimeoutSeconds}`,
    `--grpc-max-connection-age=${GRPC_CONNECTION_MS}`,
    ...SUMMARY_FLAGS,
    ...traceFlags(settings),
    // Kubernetes substitutes the key when it starts the container, or start-triton.sh that of the agent.
    ...guardFlags(agent === undefined ? `$(${SERVER_CONTROL_KEY_VARIABLE})` : '{control-key}'),
    ...settings.extraArguments,
  ];
}

type Volume = input.core.v1.Volume;
type VolumeMount = input.core.v1.VolumeMount;

/** Folder for models from S3, the same as in the Dockerfile. With an agent, its folder in both containers. */
export const SCRATCH_DIRECTORY = '/var/cache/triton';

/** Space for other files of the python backend and of libraries: an environment, compiled kernels. */
export const TEMPORARY_GIB = 2;

/** Writable volumes of the containers, whose root file systems are read-only. They are deleted with the pod. */
export function volumes({ resources }: ResolvedTritonArgs): Volume[] {
  return [
    { name: 'scratch', emptyDir: { sizeLimit: `${resources.scratchGiB}Gi` } },
    { name: 'tmp', emptyDir: { sizeLimit: `${TEMPORARY_GIB}Gi` } },
    // The container runtime's default is 64 MiB, which a few concurrent images fill.
    { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: `${resources.sharedMemoryGiB}Gi` } },
  ];
}

export function volumeMounts({ agent }: ResolvedTritonArgs): VolumeMount[] {
  return [
    // Read-only beside an agent: Python would write __pycache__ into the folders of models, and Triton then reloads them.
    { name: 'scratch', mountPath: SCRATCH_DIRECTORY, ...(agent !== undefined && { readOnly: true }) },
    { name: 'tmp', mountPath: '/tmp' },
    { name: 'shared-memory', mountPath: '/dev/shm' },
  ];
}
