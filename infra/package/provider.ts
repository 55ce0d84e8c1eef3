import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { main } from '@pulumi/pulumi/provider';
import { paths } from '../../src/core/paths';
import { construct } from './construct';
import { packageSchema } from './schema';

const { version } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as { version: string };

/** Serves the package to the engine, which passes its address. */
void main(
  { version, getSchema: () => Promise.resolve(JSON.stringify(packageSchema(version))), construct },
  process.argv.slice(2),
);
