import { InvokeResponse } from '@pulumi/pulumi/proto/provider_pb';
import { ResourceInvokeRequest } from '@pulumi/pulumi/proto/resource_pb';
import * as pulumi from '@pulumi/pulumi';
import { Struct } from 'google-protobuf/google/protobuf/struct_pb';
import { UserError } from '../../src/core/errors';
import type { Settings } from '../settings/types';

/** The resources of a stack by URN, as they were before this run. */
export type StateResources = Readonly<Record<string, { type: string; outputs: Record<string, unknown> }>>;

/** Function of Pulumi's engine that reads the last state of a stack. */
const READ_STATE = 'pulumi:pulumi:readStackResourceOutputs';

const PROVIDER = 'pulumi:providers:kubernetes';
const NAMESPACE = 'kubernetes:core/v1:Namespace';

/**
 * Reads the last state of the stack that is running. Does not use `pulumi.runtime.invoke`, which would look up each
 * resource that another one has as an output, and fail because this run has not registered it yet.
 */
export async function readOwnState(): Promise<StateResources> {
  const stackName = [pulumi.getOrganization(), pulumi.getProject(), pulumi.getStack()].join('/');
  const request = new ResourceInvokeRequest();
  request.setTok(READ_STATE);
  request.setArgs(Struct.fromJavaScript({ stackName }));
  request.setAcceptresources(false);
  const monitor = pulumi.runtime.getMonitor();
  if (monitor === undefined) return {};
  const response = await new Promise<InvokeResponse>((resolve, reject) => {
    monitor.invoke(request, (error: Error | null, answer: InvokeResponse) =>
      error === null ? resolve(answer) : reject(error),
    );
  });
  const { outputs } = pulumi.runtime.deserializeProperties(response.getReturn() ?? new Struct()) as {
    outputs?: unknown;
  };
  // All outputs are one secret if one of them is.
  const plain = pulumi.runtime.isRpcSecret(outputs) ? (pulumi.runtime.unwrapRpcSecret(outputs) as unknown) : outputs;
  return (plain ?? {}) as StateResources;
}

/**
 * Refuses another namespace together with `createNamespace: false` in a protected stack: Pulumi would delete the namespace
 * that the stack created, with all that others have in it, because it does not ask for protection when a resource is
 * replaced by one that is only read.
 * @throws UserError
 */
export function refuseToDropNamespace(
  state: StateResources,
  { protect, triton: { namespace } }: Pick<Settings, 'protect' | 'triton'>,
): void {
  if (!protect || namespace.create) return;
  const live = Object.values(state)
    .filter(({ type }) => type === NAMESPACE)
    .map(({ outputs }) => outputs['metadata'] as { name?: string; labels?: Record<string, string> } | undefined)
    .find((metadata) => metadata?.labels?.['app.kubernetes.io/instance'] !== undefined)?.name;
  if (live === undefined || live === namespace.name) return;
  throw new UserError(
    `protect is true, and this stack created the namespace ${live}: Pulumi would delete it with everything in it, because namespace changes together with createNamespace: false`,
    {
      hint: `first release it: set only createNamespace: false, with namespace: ${live}, and run "pulumi up". Then set protect: false and the new namespace`,
    },
  );
}

/**
 * Refuses to render manifests if the stack has objects in a cluster: they would get another provider, so Pulumi would
 * write the files and then delete the objects from the cluster.
 * @throws UserError
 */
export function refuseToRenderLiveObjects(state: StateResources): void {
  const resources = Object.values(state);
  const isApplied = resources.some(
    ({ type, outputs }) => type === PROVIDER && outputs['renderYamlToDirectory'] === undefined,
  );
  const objects = resources.filter(({ type }) => type.startsWith('kubernetes:')).length;
  if (!isApplied || objects === 0) return;
  throw new UserError(
    `renderManifestsTo is set, but this stack applied ${objects} objects to a cluster: Pulumi would delete them there`,
    {
      hint: 'render in a stack of its own with the same settings, or first release the objects from this stack (docs/operations.md, "From Pulumi to GitOps")',
    },
  );
}
