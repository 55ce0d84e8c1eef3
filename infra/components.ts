/** Components for other Pulumi programs. Each works without the others and without a stack file of this package. */
export { Cluster, type ClusterArgs } from './cluster/cluster';
export { cloudWatchLogsStatement, EncryptionKey, type EncryptionKeyArgs } from './storage/encryption-key';
export { GpuNodes, type GpuNodesArgs } from './gpu/gpu-nodes';
export { ModelRepository, type ModelRepositoryArgs } from './storage/model-repository';
export { Network, type NetworkArgs } from './network/network';
export { PublisherRole, type PublisherRoleArgs } from './iam/publisher-role';
export type { RepositoryRef } from './iam/repository-policies';
export { TritonAccess, type TritonAccessArgs } from './iam/triton-access';
export * from './triton/server';
