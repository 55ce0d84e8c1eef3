import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import { getRegion } from '@pulumi/aws/getRegion';
import type * as pulumi from '@pulumi/pulumi';
import { ProblemList } from '../../src/core/problems';
import { LOCATION } from '../../src/release/location';
import { TritonAccess } from '../iam/triton-access';
import { CONFIG_FIELDS } from '../settings/config';
import type { Fields, Values } from '../settings/fields';
import { readFields } from '../settings/reader';
import { STACK_FIELDS } from '../settings/stack-fields';
import { tritonSettings } from '../settings/triton';
import { TRITON_FIELDS } from '../settings/triton-fields';
import { ModelRepository } from '../storage/model-repository';
import { TritonServer, type RepositoryCredentials } from '../triton/server';

interface Given<T extends Fields> {
  name: string;
  values: Values<T, true>;
  /** For the rules between arguments. */
  problems: ProblemList;
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

const name = (description: string) => ({ kind: 'string', optional: true, description }) as const;
const text = (description: string) => ({ kind: 'string', input: true, description }) as const;
const optionalText = (description: string) => ({ ...text(description), optional: true }) as const;

const PREFIX = { kind: 'string', default: 'models', description: 'Folder of the models in the bucket.' } as const;

/** What a stack file without any setting has; readers of settings need the whole. */
const DEFAULTS = readFields(CONFIG_FIELDS, {}, new ProblemList(''));

const tritonServer = component({
  description: 'Replicas of Triton that serve a model repository: the Deployment with all that belongs to it.',
  fields: {
    modelRepository: { ...text('Location of the models.'), pattern: LOCATION, allowed: 's3://BUCKET/PREFIX' },
    region: text('AWS region of the bucket.'),
    endpointUrl: optionalText("URL of an S3 API other than AWS's, http://HOST:PORT or https://HOST:PORT."),
    credentials: {
      kind: 'object',
      fields: {
        roleArn: optionalText('ARN of the IAM role of the replicas, such as the output roleArn of TritonAccess.'),
        accessKeyId: optionalText("Id of an access key, for an S3 API other than AWS's."),
        secretAccessKey: optionalText('Secret of the access key.'),
      },
      description: 'How the replicas authenticate to the bucket: roleArn, or accessKeyId with secretAccessKey.',
    },
    ...TRITON_FIELDS,
    environment: { ...TRITON_FIELDS.environment, input: true },
    secretEnvironment: {
      kind: 'stringMap',
      input: true,
      description: 'Further environment variables, which are kept in a Secret.',
    },
    namespace: name('Kubernetes namespace of the replicas. Default: the name of the component.'),
    publisherGroup: name(TRITON_FIELDS.publisherGroup.description),
  },
  outputs: {
    namespace: text('Namespace of the replicas.'),
    podSelector: text('Label selector of the pods, in the format of kubectl.'),
    serviceUrl: text('Address of the HTTP API for clients in the cluster.'),
    externalUrl: optionalText('Address of the HTTP API for clients outside the cluster.'),
  },
  create: ({ name, values, problems, options }) => {
    const { modelRepository, region, endpointUrl, credentials, secretEnvironment, ...rest } = values;
    const { roleArn, accessKeyId, secretAccessKey } = credentials;
    if (Object.keys(credentials).length !== (roleArn === undefined ? 2 : 1)) {
      problems.add('credentials', 'is incomplete', { allowed: 'roleArn, or accessKeyId with secretAccessKey' });
    }
    const all = { ...DEFAULTS, namespace: name, ...rest, protect: undefined, cluster: 'existing' as const };
    const settings = tritonSettings(all, new Set(), problems, name);
    problems.refuse(`${problems.file} has invalid arguments`);
    const used: RepositoryCredentials =
      accessKeyId === undefined || secretAccessKey === undefined
        ? { kind: 'role', roleArn: roleArn ?? '' }
        : { kind: 'static-keys', accessKeyId, secretAccessKey };
    const where = { modelRepository, region, endpointUrl, credentials: used, secretEnvironment };
    return new TritonServer(name, { ...settings, publisherGroup: rest.publisherGroup, ...where }, options);
  },
});

const modelRepository = component({
  description: 'The bucket of the models: versioned, encrypted, accessible only to this account and named readers.',
  fields: {
    prefix: PREFIX,
    bucketReaders: { ...STACK_FIELDS.bucketReaders, input: true },
    oldVersionDays: STACK_FIELDS.oldVersionDays,
    accessLogDays: STACK_FIELDS.accessLogDays,
    forceDestroy: {
      kind: 'boolean',
      default: false,
      description: 'Whether "pulumi destroy" deletes the bucket even if it contains models.',
    },
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
    const readers = bucketReaders as pulumi.Input<string>[];
    return new ModelRepository(name, { ...rest, readers, region, accountId }, options);
  },
});

const tritonAccess = component({
  description: 'The IAM role of the replicas (IRSA), which may only read the model repository.',
  fields: {
    bucketArn: text('ARN of the bucket, such as the output bucketArn of ModelRepository.'),
    keyArn: optionalText('ARN of the KMS key of the models, such as the output keyArn of ModelRepository.'),
    prefix: PREFIX,
    oidcProviderArn: text('ARN of the IAM provider for the service accounts of the cluster.'),
    server: name('Name of the TritonServer that gets the role. Default: the name of this component.'),
    namespace: name('Namespace of this TritonServer. Default: its name.'),
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
