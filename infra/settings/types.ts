import type { completeSettings } from '../triton/settings';
import type { AwsIdentity } from './aws-identity';
import type { Values } from './fields';
import type { POOL_FIELDS } from './pool-fields';
import type { STACK_FIELDS } from './stack-fields';
import type { TRITON_FIELDS } from './triton-fields';

/** A GPU node pool with all defaults filled in. */
export type GpuNodePoolSettings = Values<typeof POOL_FIELDS>;

/**
 * A GPU node pool as users write it: a name, instance types, and all fields that differ from the defaults
 * (settings/pool-fields.ts).
 */
export type GpuNodePoolInput = Pick<GpuNodePoolSettings, 'name' | 'instanceTypes'> & Partial<GpuNodePoolSettings>;

export type TritonSettings = ReturnType<typeof completeSettings<Values<typeof TRITON_FIELDS>>> & {
  secretEnvironment: Record<string, string>;
  createIngressClass: boolean;
};

/** All settings of a stack: the values of its stack file, by their names there, and what Pulumi knows of the stack. */
export interface Settings extends Values<typeof STACK_FIELDS> {
  stack: string;
  region: string;
  /**
   * Tags of `aws:defaultTags`. The AWS provider sets them on the resources that it creates; nodes are created by
   * others.
   */
  tags: Readonly<Record<string, string>>;
  clusterName: string;
  identity: AwsIdentity;
  triton: TritonSettings;
}
