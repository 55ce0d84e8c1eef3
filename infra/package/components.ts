import { getCallerIdentityOutput } from '@pulumi/aws/getCallerIdentity';
import { getRegion } from '@pulumi/aws/getRegion';
import * as pulumi from '@pulumi/pulumi';
import { formatLocation } from '../../src/release/location';
import { ProblemList } from '../../src/core/problems';
import { createNodePool } from '../gpu/karpenter';
import { TritonAccess } from '../iam/triton-access';
import { completePool } from '../settings/gpu-node-pools';
import { CONFIG_FIELDS } from '../settings/config';
import type { Fields, Values } from '../settings/fields';
import { readFields } from '../settings/reader';
import { tritonSettings } from '../settings/triton';
import { ModelRepository } from '../storage/model-repository';
import { TritonServer, type RepositoryCredentials } from '../triton/server';
import { GPU_NODE_POOL_FIELDS, MODEL_REPOSITORY_FIELDS, TRITON_ACCESS_FIELDS, TRITON_SERVER_FIELDS } from './arguments';

/** Creates the objects, and returns the outputs. */
type Build = (options: { parent: pulumi.Resource }) => Record<string, unknown> | Promise<Record<string, unknown>>;

/** A text, or the texts in a list or mapping, as outputs. */
type Late<V> = V extends string ? pulumi.Output<string> : { [K in keyof V]: pulumi.Output<string> };

/** The arguments of one component, read by the rules of its fields. */
export interface Given<T extends Fields, L extends keyof T> {
  /** Name of the component. */
  name: string;
  values: Omit<Values<T>, L>;
  /** The arguments that a preview need not know; undefined if they were not given. */
  late: { readonly [K in L]?: Late<NonNullable<Values<T>[K & keyof Values<T>]>> };
  /** Names of the arguments that are secret. */
  secret: ReadonlySet<string>;
}

/** A component of the package, which creates a component of this program. */
export interface PackageComponent<T extends Fields = Fields, L extends keyof T = keyof T> {
  description: string;
  fields: T;
  /**
   * Arguments whose texts only occur in the contents of objects, so that they can stay secret, and a preview need not
   * know them. Of lists and mappings, a preview must know the length and the names.
   */
  late: readonly L[];
  outputs: Readonly<Record<string, { type: 'string'; description: string; optional?: true; secret?: true }>>;
  /** Applies the rules between arguments, whose problems are added to `problems`. Creates nothing yet. */
  prepare: (given: Given<T, L>, problems: ProblemList) => Build;
}

/** Fields that the type of a table cannot express are checked where the table is written. */
const component = <const T extends Fields, const L extends keyof T = never>(
  of: PackageComponent<T, L>,
): PackageComponent => of as unknown as PackageComponent;

const output = (description: string) => ({ type: 'string', description }) as const;

/** What a stack file without any setting has; readers of settings need the whole. */
const DEFAULTS = readFields(CONFIG_FIELDS, {}, new ProblemList(''));

const tritonServer = component({
  description:
    'A Triton Deployment that serves a model repository in S3, with its Service, probes, policies and monitoring.',
  fields: TRITON_SERVER_FIELDS,
  late: ['modelRepository', 'region', 'roleArn', 's3Endpoint', 's3AccessKeyId', 's3SecretAccessKey', 'environment'],
  outputs: {
    namespace: output('Namespace of the replicas.'),
    podSelector: output('Label selector of the pods, in the format of kubectl.'),
    serviceUrl: output('Address of the HTTP API for clients in the cluster.'),
    externalUrl: { ...output('Address of the HTTP API for clients outside the cluster.'), optional: true },
  },
  prepare: ({ name, values, late, secret }, problems) => {
    const credentials = getCredentials(late, problems);
    const { modelRepository = '', region = '', s3Endpoint: endpointUrl, environment = {} } = late;
    const { namespace = name, protect } = values;
    const settings = tritonSettings(
      { ...DEFAULTS, ...values, environment, namespace, protect, cluster: 'existing' },
      secret,
      problems,
      name,
    );
    return (options) => {
      const { publisherGroup } = values;
      const where = { modelRepository, region, endpointUrl, credentials };
      const server = new TritonServer(name, { ...settings, ...where, publisherGroup }, options);
      const { namespace, podSelector, serviceUrl, externalUrl } = server;
      return { namespace, podSelector, serviceUrl, externalUrl };
    };
  },
});

function getCredentials(
  late: Partial<Record<'roleArn' | 's3AccessKeyId' | 's3SecretAccessKey', pulumi.Output<string>>>,
  problems: ProblemList,
): RepositoryCredentials {
  const { roleArn, s3AccessKeyId: accessKeyId, s3SecretAccessKey } = late;
  if ((accessKeyId === undefined) !== (s3SecretAccessKey === undefined)) {
    problems.add(accessKeyId === undefined ? 's3AccessKeyId' : 's3SecretAccessKey', 'is missing', {
      allowed: 's3AccessKeyId and s3SecretAccessKey together, or neither',
    });
  }
  if ((accessKeyId === undefined) === (roleArn === undefined)) {
    problems.add('roleArn', accessKeyId === undefined ? 'is missing' : 'is set, and s3AccessKeyId too', {
      allowed: 'either roleArn, or s3AccessKeyId with s3SecretAccessKey',
    });
  }
  if (accessKeyId === undefined) return { kind: 'role', roleArn: roleArn ?? '' };
  return { kind: 'static-keys', accessKeyId, secretAccessKey: pulumi.secret(s3SecretAccessKey ?? '') };
}

const modelRepository = component({
  description: 'The bucket of the models: versioned, encrypted, accessible only to this account and named readers.',
  fields: MODEL_REPOSITORY_FIELDS,
  late: ['bucketReaders'],
  outputs: {
    url: output('Location of the models, which TritonServer takes as modelRepository.'),
    region: output('AWS region of the bucket.'),
    bucket: output('Name of the bucket.'),
    bucketArn: output('ARN of the bucket.'),
    keyArn: output('ARN of the KMS key that encrypts the models.'),
  },
  prepare: ({ name, values, late: { bucketReaders: readers } }, problems) => {
    const { modelRepositoryPrefix: prefix, bucketForceDestroy: forceDestroy } = values;
    if (values.protect === true && forceDestroy) {
      problems.add('bucketForceDestroy', 'is true, but protect is true too', { hint: 'set one of them to false' });
    }
    return async (options) => {
      const { region } = await getRegion({}, options);
      const { accountId } = getCallerIdentityOutput({}, options);
      const { oldVersionDays, accessLogDays, protect } = values;
      const days = { oldVersionDays, accessLogDays };
      const args = { prefix, region, accountId, readers, forceDestroy, protect, ...days };
      const { bucket, bucketArn, keyArn } = new ModelRepository(name, args, options);
      const url = bucket.apply((bucket) => formatLocation({ bucket, prefix }));
      return { url, region, bucket, bucketArn, keyArn };
    };
  },
});

const tritonAccess = component({
  description: 'The IAM role of the pods of a TritonServer (IRSA), which may only read the model repository.',
  fields: TRITON_ACCESS_FIELDS,
  late: ['bucketArn', 'keyArn', 'oidcProviderArn'],
  outputs: { roleArn: output('ARN of the role, which TritonServer takes as roleArn.') },
  prepare: ({ name, values, late: { bucketArn = '', keyArn, oidcProviderArn = '' } }) => {
    const { modelRepositoryPrefix: prefix, server, namespace = server } = values;
    const repository = { bucketArn, keyArn, prefix };
    const args = { repository, oidcProviderArn, namespace, serviceAccount: server };
    return (options) => ({ roleArn: new TritonAccess(name, args, options).roleArn });
  },
});

const gpuNodePool = component({
  description: 'GPU nodes that the Karpenter of an existing cluster starts when pods need them.',
  fields: GPU_NODE_POOL_FIELDS,
  late: [],
  outputs: {},
  prepare: ({ name, values: { drainSeconds, weight, ...fields } }) => {
    const pool = completePool({ ...fields, name: fields.name ?? name });
    return (options) => {
      createNodePool(name, pool, undefined, { drainSeconds, weight }, options);
      return {};
    };
  },
});

/** The components by the last part of their tokens. */
export const COMPONENTS: Readonly<Record<string, PackageComponent>> = {
  TritonServer: tritonServer,
  ModelRepository: modelRepository,
  TritonAccess: tritonAccess,
  GpuNodePool: gpuNodePool,
};
