import type { TritonServerArgs } from '../../infra/triton/args';

/** Settings of a stack with a publisher. The subject in the stack files is an example, which creates no role. */
export const PUBLISHER = {
  publisherSubjects: ['repo:acme@1234/serving@5678:environment:prod'],
};

/** An item of gpuNodePools that is a managed node group. */
export const MANAGED_GROUP = {
  name: 'fixed',
  instanceTypes: ['g5.xlarge'],
  capacityTypes: ['on-demand'],
  nodes: 2,
  labels: { team: 'vision' },
  taints: [{ key: 'team', value: 'vision', effect: 'NoExecute' }],
};

export const CERTIFICATE = 'arn:aws:acm:us-east-1:123456789012:certificate/1';

export const INGRESS: NonNullable<TritonServerArgs['exposure']> = {
  kind: 'ingress',
  host: 'triton.example.com',
  controllerCidrs: ['10.0.0.0/16'],
  certificateArn: CERTIFICATE,
};
