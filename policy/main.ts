import { join } from 'node:path';
import { PolicyPack } from '@pulumi/policy';
import { toPolicies } from './pack';
import { rules } from './rules';

// The SDK takes the pack's version from the package.json of the folder that Pulumi is run in: that of a program's main
// file, which may have none.
process.chdir(join(__dirname, '..'));

new PolicyPack('triton-serving', { policies: toPolicies(rules) });
