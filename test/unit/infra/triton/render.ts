import * as pulumi from '@pulumi/pulumi';
import { TritonServer, type TritonServerArgs } from '../../../../infra/triton/server';

/** One object as it was registered. */
export interface Registered {
  /** Pulumi's type token: `kubernetes:apps/v1:Deployment`. */
  type: string;
  /** Pulumi's name. */
  name: string;
  /** The manifest; a secret value is `{ secret: VALUE }`. */
  manifest: Record<string, unknown>;
  /** The type of the resource that it belongs to. */
  parent: string;
  timeouts: { create: string; update: string };
  ignoreChanges: string[];
}

export interface Rendered {
  objects: Registered[];
  /** The values of the component's outputs. */
  outputs: { namespace: string; podSelector: string; serviceUrl: string; externalUrl: string | undefined };
  /** The only object of a kind, with that name in Pulumi where one is given. */
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

/** What selects the pods of the server `triton`; written out, as it cannot be changed in a Deployment that is there. */
export const SELECTOR = { 'app.kubernetes.io/name': 'triton', 'app.kubernetes.io/instance': 'triton' };

/** What each of its objects carries. */
export const LABELS = {
  ...SELECTOR,
  'app.kubernetes.io/component': 'inference-server',
  'app.kubernetes.io/managed-by': 'pulumi',
};

/** What of a request to register a resource matters here. */
interface Request {
  getType(): string;
  getName(): string;
  getParent(): string;
  getIgnorechangesList(): string[];
  getCustomtimeouts(): { getCreate(): string; getUpdate(): string } | undefined;
}

/** Runs the component against mocks: what a Pulumi engine would have been asked for. */
export async function render(more: Partial<TritonServerArgs> = {}, name = 'triton'): Promise<Rendered> {
  const objects: Registered[] = [];
  const manifests = new Map<string, Record<string, unknown>>();
  await pulumi.runtime.setMocks({
    newResource: ({ type, name: logical, inputs }) => {
      const manifest = plain(inputs) as Record<string, unknown>;
      manifests.set(`${type} ${logical}`, manifest);
      const metadata = { name: `${logical}-a1b2c3d4`, ...(inputs as { metadata?: object }).metadata };
      return { id: logical, state: { ...(inputs as object), metadata } };
    },
    call: () => ({}),
  });
  const monitor = pulumi.runtime.getMonitor() as unknown as {
    registerResource(request: Request, callback: unknown): Promise<void>;
  };
  const register = monitor.registerResource.bind(monitor);
  monitor.registerResource = async (request, callback) => {
    await register(request, callback);
    const [type, logical] = [request.getType(), request.getName()];
    objects.push({
      type,
      name: logical,
      manifest: manifests.get(`${type} ${logical}`) ?? {},
      parent: request.getParent().split('::')[2] ?? '',
      timeouts: {
        create: request.getCustomtimeouts()?.getCreate() ?? '',
        update: request.getCustomtimeouts()?.getUpdate() ?? '',
      },
      ignoreChanges: request.getIgnorechangesList(),
    });
  };
  const server = new TritonServer(name, { ...ARGS, ...more });
  const outputs = await valueOf(
    pulumi.all({
      namespace: server.namespace,
      podSelector: server.podSelector,
      serviceUrl: server.serviceUrl,
      externalUrl: server.externalUrl,
    }),
  );
  // Whatever is registered later than the outputs is waited for, too.
  await pulumi.runtime.disconnect();
  return {
    objects,
    outputs: outputs as Rendered['outputs'],
    only: (kind, wanted) => {
      const found = objects.filter((one) => one.type.endsWith(`:${kind}`) && (wanted ?? one.name) === one.name);
      expect([kind, found.length]).toEqual([kind, 1]);
      return found[0]?.manifest ?? {};
    },
    kinds: () => objects.map(({ type }) => type.split(':').at(-1) ?? '').sort(),
  };
}

function valueOf<T>(output: pulumi.Output<T>): Promise<T> {
  return new Promise((resolve) => output.apply(resolve));
}

/** Secret values in a form that can be compared. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  if (pulumi.runtime.isRpcSecret(value)) return { secret: plain(pulumi.runtime.unwrapRpcSecret(value)) };
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
}
