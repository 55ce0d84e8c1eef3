import * as pulumi from '@pulumi/pulumi';
import { TritonServer, type TritonServerArgs } from '../../infra/triton/server';
import { marked, runMocked } from './mocked-engine';

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
  timeouts: { create: string; update: string };
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
    modelControlKey: string;
  };
  /** The only object of a kind, optionally with this name in Pulumi. Fails if there is not exactly one. */
  only: (kind: string, name?: string) => Record<string, unknown>;
  /** The kinds of all objects, sorted. */
  kinds: () => string[];
}

export const ARGS: TritonServerArgs = {
  modelRepository: 's3://models-prod/models',
  region: 'eu-central-1',
  credentials: { kind: 'role', roleArn: 'arn:aws:iam::123456789012:role/triton' },
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
  const manifests = new Map<string, Record<string, unknown>>();
  const { registrations, outputs } = await runMocked(
    {
      newResource: (type, logical, inputs) => {
        manifests.set(`${type} ${logical}`, marked(inputs) as Record<string, unknown>);
        const metadata = { name: `${logical}-a1b2c3d4`, ...(inputs as { metadata?: object }).metadata };
        return { id: logical, state: { ...inputs, metadata } };
      },
      call: () => ({}),
    },
    () => {
      const server = new TritonServer(name, { ...ARGS, ...more });
      const { namespace, podSelector, serviceUrl, externalUrl, modelControlKey } = server;
      return pulumi.output({ namespace, podSelector, serviceUrl, externalUrl, modelControlKey });
    },
  );
  const objects = registrations.map(({ request }): Registered => {
    const [type, logical] = [request.getType(), request.getName()];
    return {
      type,
      name: logical,
      manifest: manifests.get(`${type} ${logical}`) ?? {},
      parent: request.getParent().split('::')[2] ?? '',
      timeouts: {
        create: request.getCustomtimeouts()?.getCreate() ?? '',
        update: request.getCustomtimeouts()?.getUpdate() ?? '',
      },
      ignoreChanges: request.getIgnorechangesList(),
    };
  });
  return {
    objects,
    outputs,
    only: (kind, wanted) => {
      const found = objects.filter((one) => one.type.endsWith(`:${kind}`) && (wanted ?? one.name) === one.name);
      expect([kind, found.length]).toEqual([kind, 1]);
      return found[0]?.manifest ?? {};
    },
    kinds: () => objects.map(({ type }) => type.split(':').at(-1) ?? '').sort(),
  };
}
