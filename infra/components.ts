/** The components, for other Pulumi programs: each can be used without the others, and without a stack file of ours. */
export { Cluster, type ClusterArgs } from './cluster';
export { cloudWatchLogsStatement, EncryptionKey, type EncryptionKeyArgs } from './encryption-key';
export { GpuNodePool, type GpuNodePoolArgs, type GpuNodePoolPlace } from './gpu-node-pool';
export { GpuNodes, type GpuNodesArgs } from './gpu-nodes';
export { ModelRepository, type ModelRepositoryArgs } from './model-repository';
export { Network, type NetworkArgs } from './network';
export { PublisherRole, type PublisherRoleArgs } from './publisher-role';
export type { RepositoryPlace } from './repository-policies';
export { TritonAccess, type TritonAccessArgs } from './triton-access';
export * from './triton/server';
