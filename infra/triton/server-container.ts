import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { guardFlags } from '../../src/triton/control-key';
import { CPU_VARIABLES, RAISE_STACK_LIMIT, SERVING_FLAGS } from '../../src/triton/serving';
import { readScript } from './agent/program';
import { SUMMARY_FLAGS } from './monitoring/latency';
import type { ServerSettings } from './settings';
import { EXIT_TIMEOUT_SECONDS } from './timeouts';
import { POD_NAME_VARIABLE, traceFlags } from './tracing';

type EnvVar = input.core.v1.EnvVar;
type NamedVariable = EnvVar & { name: string };

export interface SecretNames {
  /** Secret with accessKeyId and secretAccessKey, for static keys only. */
  credentials?: pulumi.Input<string>;
  /** Secret with a key for each variable of `secretEnvironment`, if there are any. */
  environment?: pulumi.Input<string>;
}

/** Environment variables of Triton's container, which has no access to AWS. */
export function environment(settings: ServerSettings, secrets: SecretNames): EnvVar[] {
  const variables = [
    ...plain({
      // The root file system is read-only and has no entry for our user.
      HOME: '/tmp',
      USER: 'triton',
      // Compiled models compare the types and sizes of their inputs, instead of reading beyond them.
      AOTI_RUNTIME_CHECK_INPUTS: '1',
      ...CPU_VARIABLES,
    }),
    ...(settings.tracing === undefined
      ? []
      : [{ name: POD_NAME_VARIABLE, valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }]),
    ...ownVariables(settings, secrets),
  ];
  // The last one of a name counts: Kubernetes refuses the others.
  return [...new Map(variables.map((variable) => [variable.name, variable])).values()];
}

const PROXY = /^(https_proxy|no_proxy)$/i;

/** Variables of the stack with which the agent finds the proxy to S3. */
export const proxyVariables = (settings: ServerSettings, secrets: SecretNames): EnvVar[] =>
  ownVariables(settings, secrets).filter(({ name }) => PROXY.test(name));

const ownVariables = (settings: ServerSettings, secrets: SecretNames): NamedVariable[] => [
  ...Object.entries(settings.environment).map(([name, value]) => ({ name, value: clearText(name, value) })),
  ...Object.keys(settings.secretEnvironment).map((name) => fromSecret(name, secrets.environment ?? '', name)),
];

/** The value, unless a program marked it as secret: the pods would show it to everyone who may list them. */
function clearText(name: string, value: pulumi.Input<string>): pulumi.Input<string> {
  if (!pulumi.Output.isInstance(value)) return value;
  const output = pulumi.output(value);
  return pulumi.all([output, pulumi.isSecret(output)]).apply(([text, isSecret]) => {
    if (isSecret) throw new pulumi.RunError(`environment.${name} is secret: move it to secretEnvironment`);
    return text;
  });
}

/** A container must use the role or keys of the pod, never the credentials of the node. */
export const NO_METADATA = { AWS_EC2_METADATA_DISABLED: 'true' } as const;

/** The access key, if the repository has one. */
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

export const startCommand = (settings: ServerSettings): string[] => [
  '/bin/sh',
  '-c',
  `${gpuCheck(settings)}${RAISE_STACK_LIMIT}\n${readScript('start-triton.sh')}`,
  SCRATCH_DIRECTORY,
];

/**
 * Ends the container if it sees too few GPUs. Where GPUs are shared, a pod may get two slices of the same GPU, which is
 * listed once: https://gitlab.com/nvidia/kubernetes/device-plugin/-/issues/8 (2026-11-27).
 */
function gpuCheck({ gpusPerPod, sharedGpus }: ServerSettings): string {
  if (gpusPerPod === 0) return '';
  return `gpus=${gpusPerPod}\nleast=${sharedGpus ? 1 : gpusPerPod}\n${readScript('require-gpus.sh')}`;
}

/**
 * After this time clients of gRPC open another connection. The Service chooses a pod for each connection, so a client that
 * kept one forever would never reach a pod that was added. Without a grace period in Triton's arguments, requests and streams
 * that are open continue (docs/decisions.md, "Connections of gRPC end by age").
 */
const GRPC_CONNECTION_MS = 60_000;

/** The arguments of tritonserver. The agent loads the models of its release. */
export function serverArguments(settings: ServerSettings): string[] {
  return [
    `--model-repository=${SCRATCH_DIRECTORY}/models`,
    ...SERVING_FLAGS,
    `--exit-timeout-secs=${EXIT_TIMEOUT_SECONDS}`,
    `--grpc-max-connection-age=${GRPC_CONNECTION_MS}`,
    ...SUMMARY_FLAGS,
    ...traceFlags(settings),
    // start-triton.sh replaces this by the key that the agent made for the pod.
    ...guardFlags('{control-key}'),
    ...settings.extraArguments,
  ];
}

type Volume = input.core.v1.Volume;
type VolumeMount = input.core.v1.VolumeMount;

/** The folder of the agent in both containers, with the models. */
export const SCRATCH_DIRECTORY = '/var/cache/triton';

/** Space for other files of the python backend and of libraries: an environment, compiled kernels. */
export const TEMPORARY_GIB = 2;

/** Writable volumes of the containers, whose root file systems are read-only. They are deleted with the pod. */
export function volumes({ resources }: ServerSettings): Volume[] {
  return [
    { name: 'scratch', emptyDir: { sizeLimit: `${resources.scratchGiB}Gi` } },
    { name: 'tmp', emptyDir: { sizeLimit: `${TEMPORARY_GIB}Gi` } },
    // The container runtime's default is 64 MiB, which a few concurrent images fill.
    { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: `${resources.sharedMemoryGiB}Gi` } },
  ];
}

export const VOLUME_MOUNTS: VolumeMount[] = [
  // Read-only: Python would write __pycache__ into the folders of models, and Triton then reloads them.
  { name: 'scratch', mountPath: SCRATCH_DIRECTORY, readOnly: true },
  { name: 'tmp', mountPath: '/tmp' },
  { name: 'shared-memory', mountPath: '/dev/shm' },
];
