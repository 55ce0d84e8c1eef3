import * as pulumi from '@pulumi/pulumi';
import { UserError } from '../../src/core/errors';

/** The resources of a stack by URN, as they were before this run. */
export type StateResources = Readonly<Record<string, { type: string; outputs: Record<string, unknown> }>>;

/** Function of Pulumi's engine that reads the last state of a stack. */
const READ_STATE = 'pulumi:pulumi:readStackResourceOutputs';

const PROVIDER = 'pulumi:providers:kubernetes';

/** Reads the last state of the stack that is running. */
export async function readOwnState(): Promise<StateResources> {
  const stackName = [pulumi.getOrganization(), pulumi.getProject(), pulumi.getStack()].join('/');
  const { outputs } = (await pulumi.runtime.invoke(READ_STATE, { stackName })) as { outputs: StateResources };
  return outputs;
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
