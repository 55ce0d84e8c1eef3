import { PolicyPack } from '@pulumi/policy';
import { toPolicies } from './pack';
import { rules } from './rules';

new PolicyPack('triton-serving', { policies: toPolicies(rules) });
