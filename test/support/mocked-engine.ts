import * as pulumi from '@pulumi/pulumi';
import * as debuggable from '@pulumi/pulumi/runtime/debuggable';

// Pulumi records a stack trace for each promise and each resource. Jest looks up each frame in source maps, which takes
// longer than the program itself. Tests do not need these traces.
Object.assign(pulumi.Resource, { callsites: () => [] });
Object.assign(debuggable, { debuggablePromise: <T>(promise: T): T => promise });

type Properties = Record<string, unknown>;

/** The fields of a request to register a resource that tests use. */
export interface RegisterRequest {
  /** Pulumi's token: `aws:s3/bucket:Bucket`. */
  getType(): string;
  getName(): string;
  /** URN; empty for the stack itself. */
  getParent(): string;
  getProvider(): string;
  /** Whether a provider creates the resource; false for components. */
  getCustom(): boolean;
  getProtect(): boolean;
  getIgnorechangesList(): string[];
  getDeletebeforereplace(): boolean;
  getCustomtimeouts(): { getCreate(): string; getUpdate(): string } | undefined;
  /** URNs. */
  getDependenciesList(): string[];
  /** Property -> URNs of the resources on which its value depends. */
  getPropertydependenciesMap(): {
    forEach(visit: (dependencies: { getUrnsList(): string[] }, property: string) => void): void;
  };
}

/** Replaces an engine and its providers. */
export interface Mocks {
  project?: string;
  stack?: string;
  /** Returns id and properties of a new resource. Secrets in `inputs` are marked. */
  newResource(type: string, name: string, inputs: Properties): { id: string; state: Properties };
  /** Returns the result of a provider's function. */
  call(token: string, inputs: Properties): Properties;
}

/** A request to register a resource, and its URN. */
export interface Registration {
  request: RegisterRequest;
  urn: string;
}

type Answered = (error: unknown, response: { getUrn(): string } | undefined) => void;

/**
 * Runs a program against mocks.
 * @param program its result may be, or contain, outputs
 * @returns all requests to a Pulumi engine, in order, and the resolved result of the program
 */
export async function runMocked<T>(
  mocks: Mocks,
  program: () => pulumi.Input<T>,
): Promise<{ registrations: Registration[]; outputs: T }> {
  const registrations: Registration[] = [];
  await pulumi.runtime.setMocks(
    {
      newResource: ({ type, name, inputs }) => mocks.newResource(type, name, inputs as Properties),
      call: ({ token, inputs }) => mocks.call(token, inputs as Properties),
    },
    mocks.project,
    mocks.stack,
  );
  const monitor = pulumi.runtime.getMonitor() as unknown as {
    registerResource(request: RegisterRequest, answered: Answered): Promise<void>;
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
  const outputs = await new Promise<T>((resolve) => {
    (pulumi.output(program()) as pulumi.Output<T>).apply(resolve);
  });
  // Also waits for registrations after the outputs were resolved.
  await pulumi.runtime.disconnect();
  return { registrations, outputs };
}

/**
 * Converts a value so that it can be compared.
 * @param shown replacement of a secret value; default: the value itself
 */
export function plain(value: unknown, shown: (secret: unknown) => unknown = (secret) => secret): unknown {
  if (Array.isArray(value)) return value.map((one) => plain(one, shown));
  if (typeof value !== 'object' || value === null) return value;
  if (pulumi.runtime.isRpcSecret(value)) return shown(plain(pulumi.runtime.unwrapRpcSecret(value), shown));
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one, shown)]));
}

/** Like `plain`, but a secret value becomes `{ secret: VALUE }`. */
export const marked = (value: unknown): unknown => plain(value, (secret) => ({ secret }));
