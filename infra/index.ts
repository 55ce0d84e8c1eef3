import { join } from 'node:path';
import * as pulumi from '@pulumi/pulumi';
import { explained } from './explained';
import { memoryWarnings } from './memory-warnings';
import { readSettings } from './settings';
import { program } from './stack';

// Pulumi calls it, and takes what it returns for the outputs of the stack.
export = async (): Promise<object> => {
  const settings = explained(() => readSettings());
  const outputs = explained(() => program(settings));
  // Meanwhile the engine gets the resources.
  const repository = join(pulumi.getRootDirectory(), 'model-repo');
  for (const warning of await memoryWarnings(settings, repository)) void pulumi.log.warn(warning);
  return outputs;
};
