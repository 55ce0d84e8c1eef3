import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as pulumi from '@pulumi/pulumi';
import { load } from 'js-yaml';
import { program } from '../../../infra/stack';
import { readSettings, type ConfigSource } from '../../../infra/settings';
import { tagsOf } from '../../../infra/settings/source';
import { paths } from '../../../src/core/paths';
import { marked, runMocked } from '../../support/mocked-engine';

export const ACCOUNT = '123456789012';

/** A resource as the program asked for it. */
export interface Registered {
  type: string;
  name: string;
  /** A secret value is `{ secret: VALUE }`. */
  inputs: Record<string, unknown>;
  urn: string;
  /** Name of the resource that it belongs to. */
  parent: string;
  parentUrn: string;
  /** Name of the provider that was given; empty for the default one. */
  provider: string;
  protect: boolean;
  ignoreChanges: string[];
  deleteBeforeReplace: boolean;
  /** Names of the resources that have to be there before it. */
  dependsOn: string[];
  isComponent: boolean;
}

export interface RegisteredStack {
  resources: Registered[];
  outputs: Record<string, unknown>;
  /** The only resource of a type, or of a type with that name. */
  only(type: string, name?: string): Registered;
  all(type: string): Registered[];
}

/** A stack file of the repository as Pulumi gives it to the program, with other values where some are given. */
export function configOf(stack: string, values: Readonly<Record<string, unknown>> = {}): ConfigSource {
  const file = load(readFileSync(join(paths.root, `Pulumi.${stack}.yaml`), 'utf8')) as {
    config: Record<string, unknown>;
  };
  const own = Object.entries(file.config).filter(([key]) => key.startsWith('triton-serving:'));
  const given: Record<string, unknown> = {
    ...Object.fromEntries(own.map(([key, value]) => [key.slice('triton-serving:'.length), value])),
    ...values,
  };
  return {
    stack,
    region: file.config['aws:region'] as string | undefined,
    tags: tagsOf(file.config['aws:defaultTags']),
    values: Object.fromEntries(
      Object.entries(given).map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
    ),
    encrypted: new Set([
      'kubeconfig',
      's3AccessKeyId',
      's3SecretAccessKey',
      'modelControlKey',
      'ingressOidcClientSecret',
    ]),
  };
}

/** Runs the whole program against mocks: what an engine would have been asked for. */
export async function registerStack(source: ConfigSource): Promise<RegisteredStack> {
  const inputsOf = new Map<string, Record<string, unknown>>();
  // Its warnings have tests of their own.
  const quiet = jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  const { registrations, outputs } = await runMocked(
    {
      project: 'triton-serving',
      stack: source.stack,
      newResource: (type, name, inputs) => {
        inputsOf.set(`${type} ${name}`, withPolicies(marked(inputs)) as Record<string, unknown>);
        return { id: `${name}-id`, state: { ...inputs, ...stateOf(type, name, inputs) } };
      },
      call: (token) => {
        expect(token).toBe('aws:index/getCallerIdentity:getCallerIdentity');
        return { accountId: ACCOUNT };
      },
    },
    () => plainOutput(program(readSettings(source))),
  );
  quiet.mockRestore();
  const resources = registrations.map(({ request, urn }): Registered => {
    const [type, name] = [request.getType(), request.getName()];
    return {
      type,
      name,
      inputs: inputsOf.get(`${type} ${name}`) ?? {},
      urn,
      parent: lastOf(request.getParent()),
      parentUrn: request.getParent(),
      provider: request.getProvider().split('::').at(-2) ?? '',
      protect: request.getProtect(),
      ignoreChanges: request.getIgnorechangesList(),
      deleteBeforeReplace: request.getDeletebeforereplace(),
      dependsOn: request.getDependenciesList().map(lastOf).sort(),
      isComponent: !request.getCustom(),
    };
  });
  const all = (type: string): Registered[] => resources.filter((one) => one.type === type);
  return {
    resources,
    outputs,
    all,
    only: (type, name) => {
      const found = all(type).filter((one) => name === undefined || one.name === name);
      expect([type, name, found.length]).toEqual([type, name, 1]);
      return found[0] as Registered;
    },
  };
}

const lastOf = (urn: string): string => urn.split('::').at(-1) ?? '';

/** What AWS would have answered. */
function stateOf(type: string, name: string, inputs: object): object {
  const given = inputs as { name?: string; url?: string; bucket?: string };
  const arn = `arn:aws:test::${ACCOUNT}:${name}`;
  switch (type) {
    case 'aws:eks/cluster:Cluster':
      return {
        arn,
        endpoint: 'https://cluster.example.com',
        certificateAuthority: { data: 'Q0E=' },
        identities: [{ oidcs: [{ issuer: 'https://oidc.eks.us-east-1.amazonaws.com/id/ABC' }] }],
        vpcConfig: { ...(inputs as { vpcConfig: object }).vpcConfig, clusterSecurityGroupId: 'sg-cluster' },
      };
    case 'aws:iam/openIdConnectProvider:OpenIdConnectProvider':
      return { arn: `arn:aws:iam::${ACCOUNT}:oidc-provider/${(given.url ?? '').replace('https://', '')}` };
    case 'aws:s3/bucket:Bucket':
      return { arn: `arn:aws:s3:::${name}`, bucket: name };
    case 'aws:ec2/launchTemplate:LaunchTemplate':
      return { arn, latestVersion: 1 };
    default:
      return { arn, name: given.name ?? name };
  }
}

async function plainOutput(value: object): Promise<Record<string, unknown>> {
  const entries = Object.entries(value).map(async ([key, one]) => {
    const output = pulumi.output(one) as pulumi.Output<unknown>;
    const inner = await new Promise((resolve) => output.apply(resolve));
    return [key, (await pulumi.isSecret(output)) ? { secret: inner } : inner] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Policies as objects. */
function withPolicies(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withPolicies);
  if (typeof value === 'string')
    return value.startsWith('{"Version":"2012-10-17"') ? (JSON.parse(value) as unknown) : value;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withPolicies(one)]));
}
