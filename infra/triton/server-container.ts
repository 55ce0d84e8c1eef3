import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { withEndpoint } from '../../src/release/location';
import { guardFlags } from '../../src/triton/control-key';
import { CPU_VARIABLES, LOAD_ALL_FLAG, SERVING_FLAGS } from '../../src/triton/serving';
import type { ResolvedTritonArgs } from './settings';

type EnvVar = input.core.v1.EnvVar;

/** Names of the Secrets that the container reads. */
export interface SecretNames {
  /** Secret with accessKeyId and secretAccessKey, for static keys only. */
  credentials?: pulumi.Input<string>;
  /** Secret with key. */
  modelControl: pulumi.Input<string>;
  /** Secret with a key for each variable of `secretEnvironment`, if there are any. */
  environment?: pulumi.Input<string>;
}

/** Environment variables of the container. With a role, EKS adds the path of its token. */
export function environment(settings: ResolvedTritonArgs, secrets: SecretNames): EnvVar[] {
  return [
    ...plain({
      TRITON_AWS_MOUNT_DIRECTORY: SCRATCH_DIRECTORY,
      AWS_DEFAULT_REGION: settings.region,
      // Triton must use the role or keys of the pod, never the credentials of the node.
      AWS_EC2_METADATA_DISABLED: 'true',
      // The root file system is read-only and has no entry for our user.
      HOME: '/tmp',
      USER: 'triton',
      ...(settings.gpusPerPod === 0 ? CPU_VARIABLES : {}),
    }),
    ...(secrets.credentials === undefined
      ? []
      : [
          fromSecret('AWS_ACCESS_KEY_ID', secrets.credentials, 'accessKeyId'),
          fromSecret('AWS_SECRET_ACCESS_KEY', secrets.credentials, 'secretAccessKey'),
        ]),
    fromSecret(SERVER_CONTROL_KEY_VARIABLE, secrets.modelControl, 'key'),
    ...plain(settings.environment),
    ...Object.keys(settings.secretEnvironment).map((name) => fromSecret(name, secrets.environment ?? '', name)),
  ];
}

function plain(variables: Record<string, pulumi.Input<string>>): EnvVar[] {
  return Object.entries(variables).map(([name, value]) => ({ name, value }));
}

function fromSecret(name: string, secret: pulumi.Input<string>, key: string): EnvVar {
  return { name, valueFrom: { secretKeyRef: { name: secret, key } } };
}

/** Environment variable with the model control key. A variable, so that the Deployment does not contain the key. */
const SERVER_CONTROL_KEY_VARIABLE = 'MODEL_CONTROL_KEY';

/** The arguments of tritonserver. */
export function serverArguments(settings: ResolvedTritonArgs): pulumi.Input<string>[] {
  const repository = pulumi
    .all([settings.modelRepository, settings.endpointUrl])
    .apply(([location, endpoint]) => withEndpoint(location, endpoint));
  return [
    pulumi.interpolate`--model-repository=${repository}`,
    ...SERVING_FLAGS,
    LOAD_ALL_FLAG,
    `--exit-timeout-secs=${settings.shutdown.exitTimeoutSeconds}`,
    // Kubernetes substitutes the key when it starts the container.
    ...guardFlags(`$(${SERVER_CONTROL_KEY_VARIABLE})`),
    ...settings.extraArguments,
  ];
}

type Volume = input.core.v1.Volume;
type VolumeMount = input.core.v1.VolumeMount;

/** Download folder for models from S3, the same as in the Dockerfile. */
const SCRATCH_DIRECTORY = '/var/cache/triton';

/** Space for other files of the python backend and of libraries: an environment, compiled kernels. */
export const TEMPORARY_GIB = 2;

/** Writable volumes of the container, whose root file system is read-only. They are deleted with the pod. */
export function volumes({ resources }: ResolvedTritonArgs): Volume[] {
  return [
    { name: 'scratch', emptyDir: { sizeLimit: `${resources.scratchGiB}Gi` } },
    { name: 'tmp', emptyDir: { sizeLimit: `${TEMPORARY_GIB}Gi` } },
    // The container runtime's default is 64 MiB, which a few concurrent images fill.
    { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: `${resources.sharedMemoryGiB}Gi` } },
  ];
}

export const VOLUME_MOUNTS: VolumeMount[] = [
  { name: 'scratch', mountPath: SCRATCH_DIRECTORY },
  { name: 'tmp', mountPath: '/tmp' },
  { name: 'shared-memory', mountPath: '/dev/shm' },
];
