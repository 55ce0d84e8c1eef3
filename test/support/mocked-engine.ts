import * as pulumi from '@pulumi/pulumi';
import * as debuggable from '@pulumi/pulumi/runtime/debuggable';

// Pulumi notes where each promise and each resource was made. Jest looks up every frame of it in source maps, which takes
// longer than the program itself; and the notes are for messages that nobody reads here.
Object.assign(pulumi.Resource, { callsites: () => [] });
Object.assign(debuggable, { debuggablePromise: <T>(promise: T): T => promise });

type Properties = Record<string, unknown>;

/** What of a request to register a resource matters to tests. */
export interface RegisterRequest {
  /** Pulumi's token: `aws:s3/bucket:Bucket`. */
  getType(): string;
  getName(): string;
  /** URN; empty for the stack itself. */
  getParent(): string;
  getProvider(): string;
  /** Whether a provider makes it; a component is there for others only. */
  getCustom(): boolean;
  getProtect(): boolean;
  getIgnorechangesList(): string[];
  getDeletebeforereplace(): boolean;
  getCustomtimeouts(): { getCreate(): string; getUpdate(): string } | undefined;
  /** URNs. */
  getDependenciesList(): string[];
  /** For each property, the URNs that it was made from. */
  getPropertydependenciesMap(): {
    forEach(visit: (dependencies: { getUrnsList(): string[] }, property: string) => void): void;
  };
}

/** Stands in for an engine and its providers. */
export interface Mocks {
  project?: string;
  stack?: string;
  /** Id and properties of a resource that was made with `inputs`, in which secrets are marked. */
  newResource(type: string, name: string, inputs: Properties): { id: string; state: Properties };
  /** The answer of a provider's function. */
  call(token: string, inputs: Properties): Properties;
}

/** A request that was made, and what became of it. */
export interface Registration {
  request: RegisterRequest;
  urn: string;
}

type Answered = (error: unknown, response: { getUrn(): string } | undefined) => void;

/**
 * Runs a program against mocks: all that a Pulumi engine would have been asked for, in that order.
 * @param program what it returns, or any part of it, may be an output
 * @returns with the value that it has then
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
  // Whatever is registered later than the outputs is waited for, too.
  await pulumi.runtime.disconnect();
  return { registrations, outputs };
}

/**
 * A value as it can be compared.
 * @param shown what stands for a value that is secret; default: the value itself
 */
export function plain(value: unknown, shown: (secret: unknown) => unknown = (secret) => secret): unknown {
  if (Array.isArray(value)) return value.map((one) => plain(one, shown));
  if (typeof value !== 'object' || value === null) return value;
  if (pulumi.runtime.isRpcSecret(value)) return shown(plain(pulumi.runtime.unwrapRpcSecret(value), shown));
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one, shown)]));
}

/** The same, with a value that is secret as `{ secret: VALUE }`. */
export const marked = (value: unknown): unknown => plain(value, (secret) => ({ secret }));
