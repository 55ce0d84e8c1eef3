import { TritonServer, type TritonServerArgs } from '../../infra/triton/server';
import { registered, type RegisteredResource } from './registered-stack';

/** A registered object. */
export interface Registered {
  /** Pulumi's type token: `kubernetes:apps/v1:Deployment`. */
  type: string;
  /** Pulumi's name. */
  name: string;
  /** The manifest; a secret value is `{ secret: VALUE }`. */
  manifest: Record<string, unknown>;
  /** The type of the parent resource. */
  parent: string;
  timeouts: RegisteredResource['timeouts'];
  ignoreChanges: string[];
}

export interface Rendered {
  objects: Registered[];
  /** The values of the component's outputs. */
  outputs: {
    namespace: string;
    podSelector: string;
    serviceUrl: string;
    externalUrl: string | undefined;
  };
  /** The only object of a kind, optionally with this name in Pulumi. Fails if there is not exactly one. */
  only: (kind: string, name?: string) => Record<string, unknown>;
  /** The kinds of all objects, sorted. */
  kinds: () => string[];
}

export const ARGS: TritonServerArgs = {
  modelRepository: 's3://models-prod/models',
  region: 'eu-central-1',
  credentials: { roleArn: 'arn:aws:iam::123456789012:role/triton' },
  image: 'registry.example/tritonserver:1.2.3',
};

/** Pod selector of the server `triton`. A literal, because the selector of an existing Deployment cannot change. */
export const SELECTOR = { 'app.kubernetes.io/name': 'triton', 'app.kubernetes.io/instance': 'triton' };

/** Labels of all objects of the server. */
export const LABELS = {
  ...SELECTOR,
  'app.kubernetes.io/component': 'inference-server',
  'app.kubernetes.io/managed-by': 'pulumi',
};

/** Runs the component against mocks, and returns all objects that it registers. */
export async function render(more: Partial<TritonServerArgs> = {}, name = 'triton'): Promise<Rendered> {
  const { resources, outputs } = await registered(() => {
    const server = new TritonServer(name, { ...ARGS, ...more });
    const { namespace, podSelector, serviceUrl, externalUrl } = server;
    return { namespace, podSelector, serviceUrl, externalUrl };
  }, 'test');
  const objects = resources.map(({ type, name: logical, marked, parent, timeouts, ignoreChanges }) => ({
    type,
    name: logical,
    manifest: marked,
    parent: parent.split('::')[2] ?? '',
    timeouts,
    ignoreChanges,
  }));
  return {
    objects,
    outputs: outputs as unknown as Rendered['outputs'],
    only: (kind, wanted) => {
      const found = objects.filter((one) => one.type.endsWith(`:${kind}`) && (wanted ?? one.name) === one.name);
      expect([kind, found.length]).toEqual([kind, 1]);
      return found[0]?.manifest ?? {};
    },
    kinds: () => objects.map(({ type }) => type.split(':').at(-1) ?? '').sort(),
  };
}
