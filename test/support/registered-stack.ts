import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import * as pulumi from '@pulumi/pulumi';
import type { RegisterResourceRequest, RegisterResourceResponse } from '@pulumi/pulumi/proto/resource_pb';
import * as debuggable from '@pulumi/pulumi/runtime/debuggable';
import { readSettings, type ConfigSource } from '../../infra/settings';
import { getTags } from '../../infra/settings/source';
import { program } from '../../infra/stack';
import { paths } from '../../src/core/paths';

const REGION = 'us-east-1';
/** AWS account of the mocks. */
export const ACCOUNT = '123456789012';

const arn = (service: string, rest: string): string => `arn:aws:${service}:${REGION}:${ACCOUNT}:${rest}`;

/** A property if it is a string, otherwise a default. */
const textOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise);

/** Properties that AWS adds to a new resource, if other resources of a stack depend on them. */
const STATES: Readonly<Record<string, (name: string, inputs: Properties) => Properties & { id?: string }>> = {
  'aws:s3/bucket:Bucket': (name, { bucket }) => {
    const id = textOr(bucket, `${name}-a1b2c3d`);
    return { id, bucket: id, arn: `arn:aws:s3:::${id}` };
  },
  'aws:kms/key:Key': (name) => ({ id: name, keyId: name, arn: arn('kms', `key/${name}`) }),
  'aws:iam/role:Role': (name, inputs) => {
    const role = textOr(inputs['name'], `${name}-a1b2c3d`);
    return { id: role, name: role, arn: `arn:aws:iam::${ACCOUNT}:role/${role}` };
  },
  'aws:iam/openIdConnectProvider:OpenIdConnectProvider': (_, { url }) => ({
    arn: `arn:aws:iam::${ACCOUNT}:oidc-provider/${textOr(url, '').replace(/^https:\/\//, '')}`,
  }),
  'aws:eks/cluster:Cluster': (_, { name, vpcConfig }) => ({
    id: textOr(name, ''),
    arn: arn('eks', `cluster/${textOr(name, '')}`),
    endpoint: `https://A1B2C3.gr7.${REGION}.eks.amazonaws.com`,
    certificateAuthority: { data: 'Y2VydGlmaWNhdGU=' },
    identities: [{ oidcs: [{ issuer: `https://oidc.eks.${REGION}.amazonaws.com/id/A1B2C3` }] }],
    vpcConfig: { ...(vpcConfig as object), clusterSecurityGroupId: 'sg-cluster', vpcId: 'vpc-cluster' },
  }),
  'aws:cloudwatch/logGroup:LogGroup': (name, inputs) => {
    const group = textOr(inputs['name'], `${name}-a1b2c3d`);
    return { id: group, name: group, arn: arn('logs', `log-group:${group}`) };
  },
  'aws:ec2/launchTemplate:LaunchTemplate': (name) => ({ id: `lt-${name}`, latestVersion: 1 }),
};

/** Id and properties of a resource with these `inputs`. */
function mockedState(type: string, name: string, inputs: Properties): { id: string; state: Properties } {
  const kubernetes = /^kubernetes:(?!.*:Provider$)/.test(type);
  const { metadata } = inputs as { metadata?: object };
  const added = kubernetes
    ? { metadata: { name: `${name}-a1b2c3d`, ...metadata } }
    : (STATES[type]?.(name, inputs) ?? { arn: `arn:aws:mocked::${ACCOUNT}:${name}` });
  const { id = `${name}-id`, ...state } = added;
  return { id, state: { ...inputs, ...state } };
}

// Pulumi records a stack trace for each promise and each resource. Jest looks up each frame in source maps, which takes
// longer than the program itself. Tests do not need these traces.
Object.assign(pulumi.Resource, { callsites: () => [] });
Object.assign(debuggable, { debuggablePromise: <T>(promise: T): T => promise });

type Properties = Record<string, unknown>;

/** A resource that a program registered with Pulumi. */
export interface RegisteredResource {
  /** Pulumi's token: `aws:s3/bucket:Bucket`. */
  type: string;
  name: string;
  urn: string;
  /** URN; empty for the stack itself. */
  parent: string;
  /** Properties, with secrets in plain text. */
  inputs: Properties;
  /** Like `inputs`, but a secret value is `{ secret: VALUE }`. */
  marked: Properties;
  /** Inputs, and properties that a provider would add. */
  state: Properties;
  protect: boolean;
  /** Whether a provider creates the resource; false for components. */
  custom: boolean;
  /** Name of the given provider; empty for the default one. */
  provider: string;
  ignoreChanges: string[];
  replaceOnChanges: string[];
  /** Undefined if the provider decides. */
  deleteBeforeReplace: boolean | undefined;
  retainOnDelete: boolean;
  /** URN of the resource with which the provider deletes this one; empty if none. */
  deletedWith: string;
  timeouts: { create: string; update: string; delete: string };
  /** URNs. */
  dependencies: string[];
  /** Property -> URNs of the resources on which its value depends. */
  propertyDependencies: Record<string, string[]>;
}

export interface RegisteredStack {
  resources: RegisteredResource[];
  /** A secret value is `{ secret: VALUE }`. */
  outputs: Properties;
  /** @param type Pulumi's token, or the end of it: `apps/v1:Deployment`, `Deployment` */
  all: (type: string) => RegisteredResource[];
  /** The only resource of a type, or of a type with that name. Fails if there is not exactly one. */
  only: (type: string, name?: string) => RegisteredResource;
}

const PROJECT = 'triton-serving';
const SECRETS = ['existingCluster', 's3'];

/** What Pulumi.local.yaml leaves to its users. */
export const LOCAL_S3 = { endpoint: 'http://s3:9000', accessKeyId: 'key', secretAccessKey: 'hidden-key' };
const KUBECONFIG = {
  'current-context': 'kind-kind',
  contexts: [{ name: 'kind-kind', context: { cluster: 'kind', user: 'me' } }],
  clusters: [{ name: 'kind', cluster: { server: 'https://127.0.0.1:6443' } }],
  users: [{ name: 'me', user: { token: 'secret-token' } }],
};
export const LOCAL_VALUES = { existingCluster: { kubeconfig: JSON.stringify(KUBECONFIG) }, s3: LOCAL_S3 };

/** A stack file of the repository as Pulumi passes it to the program, with some values replaced. */
export function getConfig(stack: string, values: Readonly<Record<string, unknown>> = {}): ConfigSource {
  const { config } = load(readFileSync(join(paths.root, `Pulumi.${stack}.yaml`), 'utf8')) as {
    config: Record<string, unknown>;
  };
  const own = Object.entries(config)
    .filter(([key]) => key.startsWith(`${PROJECT}:`))
    .map(([key, value]) => [key.slice(PROJECT.length + 1), value] as const);
  const all = Object.entries({ ...Object.fromEntries(own), ...values });
  return {
    stack,
    region: config['aws:region'] as string | undefined,
    identity: {},
    tags: getTags(config['aws:defaultTags']),
    values: Object.fromEntries(
      all.map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
    ),
    encrypted: new Set(SECRETS),
  };
}

/** Runs the program of a stack against mocks, with some values of its stack file replaced. */
export function registeredStack(
  stack: string,
  values: Readonly<Record<string, unknown>> = {},
  source: Partial<ConfigSource> = {},
): Promise<RegisteredStack> {
  return registered(() => program(readSettings({ ...getConfig(stack, values), ...source })), stack);
}

/**
 * Like registeredStack, for any program. Its result may contain Pulumi outputs.
 * @param isPreview whether outputs that `mockedState` does not have are unknown
 */
export async function registered(run: () => object, stack: string, isPreview = false): Promise<RegisteredStack> {
  const made = new Map<string, Pick<RegisteredResource, 'inputs' | 'marked' | 'state'>>();
  await pulumi.runtime.setMocks(
    {
      newResource: ({ type, name, inputs }) => {
        const given = plain(inputs) as Properties;
        const { id, state } = mockedState(type, name, given);
        made.set(`${type} ${name}`, {
          inputs: given,
          marked: plain(inputs, (secret) => ({ secret })) as Properties,
          state: { ...state, id },
        });
        return { id, state };
      },
      call: ({ token, inputs }) => CALLS[token]?.(inputs as Properties) ?? (inputs as Properties),
    },
    PROJECT,
    stack,
    isPreview,
  );
  const registrations = recordRegistrations();
  const outputs = await plainOutputs(run());
  // Also waits for registrations after the outputs were resolved.
  await pulumi.runtime.disconnect();
  const resources = registrations.map(({ request, urn }): RegisteredResource => {
    const [type, name] = [request.getType(), request.getName()];
    const propertyDependencies: Record<string, string[]> = {};
    request.getPropertydependenciesMap().forEach((dependencies, key) => {
      propertyDependencies[key] = dependencies.getUrnsList();
    });
    return {
      type,
      name,
      urn,
      parent: request.getParent(),
      ...(made.get(`${type} ${name}`) ?? { inputs: {}, marked: {}, state: {} }),
      protect: request.getProtect() ?? false,
      custom: request.getCustom(),
      provider: request.getProvider().split('::').at(-2) ?? '',
      ignoreChanges: request.getIgnorechangesList(),
      replaceOnChanges: request.getReplaceonchangesList(),
      deleteBeforeReplace: request.getDeletebeforereplacedefined() ? request.getDeletebeforereplace() : undefined,
      retainOnDelete: request.getRetainondelete() ?? false,
      deletedWith: request.getDeletedwith(),
      timeouts: {
        create: request.getCustomtimeouts()?.getCreate() ?? '',
        update: request.getCustomtimeouts()?.getUpdate() ?? '',
        delete: request.getCustomtimeouts()?.getDelete() ?? '',
      },
      dependencies: request.getDependenciesList(),
      propertyDependencies,
    };
  });
  const all = (type: string): RegisteredResource[] => resources.filter((one) => `:${one.type}`.endsWith(`:${type}`));
  return {
    resources,
    outputs,
    all,
    only: (type, name) => {
      const found = all(type).filter((one) => name === undefined || one.name === name);
      expect([type, name, found.length]).toEqual([type, name, 1]);
      return found[0] as RegisteredResource;
    },
  };
}

/** Answers of AWS to functions of the provider. */
const CALLS: Readonly<Record<string, (inputs: Properties) => Properties>> = {
  'aws:index/getCallerIdentity:getCallerIdentity': () => ({ accountId: ACCOUNT }),
  'aws:index/getRegion:getRegion': () => ({ region: 'us-east-1' }),
  'aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider': ({ url }) => ({
    arn: `arn:aws:iam::${ACCOUNT}:oidc-provider/${(url as string).replace('https://', '')}`,
  }),
};

/** A request to register a resource, and the URN in its answer. */
interface Registration {
  request: RegisterResourceRequest;
  urn: string;
}

type Answered = (error: unknown, response: RegisterResourceResponse | undefined) => void;

/** All requests to register a resource from now on, in order. */
function recordRegistrations(): Registration[] {
  const registrations: Registration[] = [];
  const monitor = pulumi.runtime.getMonitor() as unknown as {
    registerResource(request: RegisterResourceRequest, answered: Answered): Promise<void>;
  };
  const register = monitor.registerResource.bind(monitor);
  monitor.registerResource = async (request, answered) => {
    const registration = { request, urn: '' };
    registrations.push(registration);
    await register(request, (error, response) => {
      registration.urn = response?.getUrn() ?? '';
      answered(error, response);
    });
  };
  return registrations;
}

async function plainOutputs(value: object): Promise<Properties> {
  const entries = Object.entries(value).map(async ([key, one]) => {
    const output = pulumi.output(one) as pulumi.Output<unknown>;
    const inner = await new Promise((resolve) => output.apply(resolve));
    return [key, (await pulumi.isSecret(output)) ? { secret: inner } : inner] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/**
 * Converts properties so that they can be compared.
 * @param shown replacement of a secret value; default: the value itself
 */
function plain(value: unknown, shown: (secret: unknown) => unknown = (secret) => secret): unknown {
  if (Array.isArray(value)) return value.map((one) => plain(one, shown));
  if (typeof value !== 'object' || value === null) return value;
  if (pulumi.runtime.isRpcSecret(value)) return shown(plain(pulumi.runtime.unwrapRpcSecret(value), shown));
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one, shown)]));
}
