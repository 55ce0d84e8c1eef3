import { InvokeResponse } from '@pulumi/pulumi/proto/provider_pb';
import { ResourceInvokeRequest } from '@pulumi/pulumi/proto/resource_pb';
import * as pulumi from '@pulumi/pulumi';
import { Struct } from 'google-protobuf/google/protobuf/struct_pb';
import { UserError } from '../../src/core/errors';

/** The resources of a stack by URN, as they were before this run. */
export type StateResources = Readonly<Record<string, { type: string; outputs: Record<string, unknown> }>>;

/** Function of Pulumi's engine that reads the last state of a stack. */
const READ_STATE = 'pulumi:pulumi:readStackResourceOutputs';

const PROVIDER = 'pulumi:providers:kubernetes';

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
