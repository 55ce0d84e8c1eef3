import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { program } from '../../infra/stack';
import { readSettings, type ConfigSource } from '../../infra/settings';
import { tagsOf } from '../../infra/settings/source';
import { paths } from '../../src/core/paths';
import { mockedState } from './mocked-state';
import { plain, runMocked } from './mocked-engine';

/** A resource that a program registered with Pulumi. */
export interface RegisteredResource {
  /** Pulumi's token: `aws:s3/bucket:Bucket`. */
  type: string;
  name: string;
  urn: string;
  /** URN; empty for the stack itself. */
  parent: string;
  /** Properties, with secrets in plain text. */
  inputs: Record<string, unknown>;
  /** Inputs, and properties that AWS would add. */
  state: Record<string, unknown>;
  protect: boolean;
  /** Whether a provider creates the resource; false for components. */
  custom: boolean;
  /** URNs. */
  dependencies: string[];
  /** Property -> URNs of the resources on which its value depends. */
  propertyDependencies: Record<string, string[]>;
}

export interface RegisteredStack {
  resources: RegisteredResource[];
  outputs: Record<string, unknown>;
}

const PROJECT = 'triton-serving';

/** The stack file as the program reads it, with some keys replaced; null removes a key. */
function stackConfig(stack: string, changes: Readonly<Record<string, unknown>> = {}): ConfigSource {
  const { config } = load(readFileSync(join(paths.root, `Pulumi.${stack}.yaml`), 'utf8')) as {
    config: Record<string, unknown>;
  };
  const own = Object.entries(config).filter(([key]) => key.startsWith(`${PROJECT}:`));
  const values = {
    ...Object.fromEntries(own.map(([key, value]) => [key.slice(PROJECT.length + 1), value])),
    ...changes,
  };
  return {
    stack,
    region: config['aws:region'] as string | undefined,
    tags: tagsOf(config['aws:defaultTags']),
    values: Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null)),
    encrypted: new Set(Object.keys(values)),
  };
}

/** Runs the program of a stack against mocks, and returns all resources that it registers. */
export async function registeredStack(
  stack: string,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<RegisteredStack> {
  const settings = readSettings(stackConfig(stack, changes));
  return registered(() => program(settings), stack);
}

/** Like registeredStack, for any program. Its result may contain Pulumi outputs. */
export async function registered(run: () => Record<string, unknown>, stack: string): Promise<RegisteredStack> {
  const made = new Map<string, { inputs: Record<string, unknown>; state: Record<string, unknown> }>();
  // Suppress warnings of the program.
  const warnings = jest.spyOn(console, 'warn').mockImplementation();
  const { registrations, outputs } = await runMocked(
    {
      project: PROJECT,
      stack,
      newResource: (type, name, inputs) => {
        const given = plain(inputs) as Record<string, unknown>;
        const { id, state } = mockedState(type, name, given);
        made.set(`${type} ${name}`, { inputs: given, state: { ...state, id } });
        return { id, state };
      },
      call: (token, inputs) => (token === CALLER ? { accountId: ACCOUNT } : inputs),
    },
    run,
  );
  warnings.mockRestore();
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
      ...(made.get(`${type} ${name}`) ?? { inputs: {}, state: {} }),
      protect: request.getProtect(),
      custom: request.getCustom(),
      dependencies: request.getDependenciesList(),
      propertyDependencies,
    };
  });
  return { resources, outputs: plain(outputs) as Record<string, unknown> };
}

/** AWS account of the mocks. */
const ACCOUNT = '111122223333';
const CALLER = 'aws:index/getCallerIdentity:getCallerIdentity';
