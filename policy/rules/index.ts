import type { Rule } from '../rule';
import { bucketPolicyRules } from './bucket-policies';
import { bucketRules } from './buckets';
import { clusterRules } from './clusters';
import { gpuRules } from './gpu-pods';
import { iamRules } from './iam';
import { machineRules } from './machines';
import { networkRules } from './networks';
import { podRules } from './pods';
import { stackRules } from './stacks';
import { workloadRules } from './workloads';

/** All rules for stacks. */
export const rules: readonly Rule[] = [
  ...bucketRules,
  ...bucketPolicyRules,
  ...iamRules,
  ...machineRules,
  ...clusterRules,
  ...networkRules,
  ...podRules,
  ...gpuRules,
  ...workloadRules,
  ...stackRules,
];
