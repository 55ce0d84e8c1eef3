import { join } from 'node:path';
import { PolicyPack } from '@pulumi/policy';
import { toPolicy } from './pack';
import { rules } from './rules';

// The SDK reads the pack's version from the package.json of the current folder. Pulumi sets this folder to that of a
// program's main file, which may have no package.json.
process.chdir(join(__dirname, '..'));

new PolicyPack('triton-serving', { policies: rules.map(toPolicy) });
