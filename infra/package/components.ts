import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import { getRegion } from '@pulumi/aws/getRegion';
import type * as pulumi from '@pulumi/pulumi';
import { TritonAccess } from '../iam/triton-access';
import { flag, text, type Fields, type Values } from '../settings/fields';
import { IDENTITY_PROVIDER, KMS_KEY, NAMESPACE } from '../settings/formats';
import { locationFault, STACK_FIELDS } from '../settings/stack-fields';
import { TRITON_SERVER_FIELDS } from '../settings/triton-fields';
import { ModelRepository } from '../storage/model-repository';
import { TritonServer } from '../triton/server';

interface Given<T extends Fields> {
  name: string;
  values: Values<T, true>;
  options: pulumi.ComponentResourceOptions;
}

/** A component that programs in any language can create. */
export interface PackageComponent<T extends Fields = Fields> {
  description: string;
  fields: T;
  /** The properties that the component has afterwards. */
  outputs: Fields;
  create: (given: Given<T>) => pulumi.ComponentResource | Promise<pulumi.ComponentResource>;
}

/** Checks a component where it is written, by the types of its own fields. */
const component = <const T extends Fields>(written: PackageComponent<T>): PackageComponent =>
  written as unknown as PackageComponent;

const PREFIX = text('Folder of the models in the bucket.', {
  default: 'models',
  check: (prefix) => (/^\/|\/$/.test(prefix) ? { reason: '' } : locationFault(`s3://bucket/${prefix}`)),
  allowed: 'a path without a slash at its ends',
});

const tritonServer = component({
  description: 'Replicas of Triton that serve a model repository: the Deployment with all that belongs to it.',
  fields: TRITON_SERVER_FIELDS,
  outputs: {
    namespace: text('Namespace of the replicas.'),
    podSelector: text('Label selector of the pods, in the format of kubectl.'),
    serviceUrl: text('Address of the HTTP API for clients in the cluster.'),
    externalUrl: text('Address of the HTTP API for clients outside the cluster.', { optional: true }),
    builder: text(
      'How "npm run build -- --stack" compiles models for the replicas, as JSON; empty if their GPUs are not known.',
    ),
  },
  create: ({ name, values, options }) => new TritonServer(name, values, options),
});

const modelRepository = component({
  description: 'The bucket of the models: versioned, encrypted, accessible only to this account and named readers.',
  fields: {
    prefix: PREFIX,
    bucketReaders: { ...STACK_FIELDS.bucketReaders, input: true },
    oldVersionDays: STACK_FIELDS.oldVersionDays,
    logDays: STACK_FIELDS.logDays,
    protect: flag(
      'Whether Pulumi refuses to delete the bucket and its key. If false, "pulumi destroy" deletes the models too. Default: the option of the component.',
      { optional: true },
    ),
  },
  outputs: {
    url: text('Location of the models, the argument modelRepository of TritonServer.'),
    region: text('AWS region of the bucket.'),
    bucket: text('Name of the bucket.'),
    bucketArn: text('ARN of the bucket.'),
    keyArn: text('ARN of the KMS key that encrypts the models.'),
  },
  create: async ({ name, values: { bucketReaders, ...rest }, options }) => {
    const provider = (options.providers as Record<string, pulumi.ProviderResource> | undefined)?.['aws'];
    const { region } = await getRegion({}, { provider });
    const { accountId } = getCallerIdentityOutput({}, { provider });
    const readers = { bucketReaders: bucketReaders as pulumi.Input<string>[] };
    return new ModelRepository(name, { ...rest, ...readers, region, accountId }, options);
  },
});

const tritonAccess = component({
  description: 'The IAM role of the replicas (IRSA), which may only read the model repository.',
  fields: {
    bucketArn: text('ARN of the bucket, such as the output bucketArn of ModelRepository.', {
      input: true,
      pattern: /^arn:aws[a-z-]*:s3:::[^/]+$/,
      allowed: 'the ARN of a bucket, "arn:aws:s3:::NAME"',
    }),
    keyArn: text('ARN of the KMS key of the models, such as the output keyArn of ModelRepository.', {
      ...KMS_KEY,
      input: true,
      optional: true,
    }),
    prefix: PREFIX,
    oidcProviderArn: text('ARN of the IAM provider for the service accounts of the cluster.', {
      ...IDENTITY_PROVIDER,
      input: true,
    }),
    server: text('Name of the TritonServer that gets the role. Default: the name of this component.', {
      ...NAMESPACE,
      optional: true,
    }),
    namespace: text('Namespace of this TritonServer. Default: its name.', { ...NAMESPACE, optional: true }),
  },
  outputs: { roleArn: text('ARN of the role, the argument roleArn of TritonServer.') },
  create: ({ name, values, options }) => {
    const { oidcProviderArn, server = name, namespace = server, ...repository } = values;
    return new TritonAccess(name, { repository, oidcProviderArn, namespace, serviceAccount: server }, options);
  },
});

/** The components by the last part of their tokens. */
export const COMPONENTS: Readonly<Record<string, PackageComponent>> = {
  TritonServer: tritonServer,
  ModelRepository: modelRepository,
  TritonAccess: tritonAccess,
};
