import { join } from 'node:path';
import * as pulumi from '@pulumi/pulumi';
import { readOwnState, refuseToRenderLiveObjects } from './cluster/live-objects';
import { toRunError } from './run-error';
import { readSettings } from './settings';
import { getServedChanges, isLoadBalancerClassChanged, refuseToDropNamespace } from './served-changes';
import { program } from './stack';
import { getSpotNotes, getWarnings } from './warnings';

// Pulumi calls this function and uses its result as the outputs of the stack.
export = async (): Promise<object> => {
  const settings = toRunError(() => readSettings());
  const state = await readOwnState();
  if (settings.renderManifestsTo !== undefined) toRunError(() => refuseToRenderLiveObjects(state));
  toRunError(() => refuseToDropNamespace(state, settings));
  for (const change of toRunError(() => getServedChanges(state, settings))) void pulumi.log.warn(change);
  const { exposure } = settings.triton;
  // A load balancer that moves to another namespace or cluster serves until its replacement does.
  if (exposure.kind === 'internal-load-balancer') {
    exposure.deleteBeforeReplace = isLoadBalancerClassChanged(state, settings);
  }
  const warnings = toRunError(() => getWarnings(settings, new Date()));
  for (const warning of warnings) void pulumi.log.warn(warning);
  for (const note of getSpotNotes(settings)) void pulumi.log.info(note);
  const outputs = toRunError(() => program(settings));
  // The engine processes the resources while this loads the code for models and reads them.
  const { modelWarnings } = await import('./model-warnings');
  const repository = join(pulumi.getRootDirectory(), 'model-repo');
  for (const warning of await modelWarnings(settings, repository)) void pulumi.log.warn(warning);
  return outputs;
};
