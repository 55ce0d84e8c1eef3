import { join } from 'node:path';
import * as pulumi from '@pulumi/pulumi';
import { toRunError } from './run-error';
import { readSettings } from './settings';
import { program } from './stack';
import { getWarnings } from './warnings';

// Pulumi calls this function and uses its result as the outputs of the stack.
export = async (): Promise<object> => {
  const settings = toRunError(() => readSettings());
  for (const warning of toRunError(() => getWarnings(settings))) void pulumi.log.warn(warning);
  const outputs = toRunError(() => program(settings));
  // The engine processes the resources while this loads the code for models and reads them.
  const { modelWarnings } = await import('./model-warnings');
  const repository = join(pulumi.getRootDirectory(), 'model-repo');
  for (const warning of await modelWarnings(settings, repository)) void pulumi.log.warn(warning);
  return outputs;
};
