import type { input } from '@pulumi/kubernetes/types';
import type * as pulumi from '@pulumi/pulumi';
import { CPU_VARIABLES } from '../../src/triton/serving';
import { CONTROL_KEY_VARIABLE } from './flags';
import type { TritonSettings } from './settings';
import { SCRATCH_DIRECTORY } from './volumes';

type EnvVar = input.core.v1.EnvVar;

/** The Secrets that the container reads, where there are such. */
export interface SecretNames {
  /** Has accessKeyId and secretAccessKey. */
  credentials?: pulumi.Input<string>;
  /** Has key. */
  modelControl: pulumi.Input<string>;
}

/** Environment variables of the container. With a role, EKS adds where its token is. */
export function environment(settings: TritonSettings, secrets: SecretNames): EnvVar[] {
  return [
    ...plain({
      TRITON_AWS_MOUNT_DIRECTORY: SCRATCH_DIRECTORY,
      AWS_DEFAULT_REGION: settings.region,
      // The role of the pod or its keys, never those of the machine it runs on.
      AWS_EC2_METADATA_DISABLED: 'true',
      // The root file system is read-only, and its list of users does not have ours.
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
    fromSecret(CONTROL_KEY_VARIABLE, secrets.modelControl, 'key'),
    ...plain(settings.environment),
  ];
}

function plain(variables: Record<string, pulumi.Input<string>>): EnvVar[] {
  return Object.entries(variables).map(([name, value]) => ({ name, value }));
}

function fromSecret(name: string, secret: pulumi.Input<string>, key: string): EnvVar {
  return { name, valueFrom: { secretKeyRef: { name: secret, key } } };
}
