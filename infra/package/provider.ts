import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as pulumi from '@pulumi/pulumi';
import { main } from '@pulumi/pulumi/provider';
import { paths } from '../../src/core/paths';
import { construct } from './construct';
import { packageSchema } from './schema';

const { version } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as { version: string };

/** Serves the package to the engine, which passes its address. */
void main(
  {
    version,
    getSchema: async () => Promise.resolve(JSON.stringify(packageSchema(version))),
    construct: async (name: string, type: string, inputs: pulumi.Inputs, options: pulumi.ComponentResourceOptions) =>
      construct(name, type, inputs, options),
  },
  process.argv.slice(2),
);
