/** Pulumi's type tokens that several rules use. */
export const BUCKETS = ['aws:s3/bucket:Bucket', 'aws:s3/bucketV2:BucketV2'] as const;

export const BUCKET_POLICY = 'aws:s3/bucketPolicy:BucketPolicy';

export const KEY = 'aws:kms/key:Key';

export const VPC = 'aws:ec2/vpc:Vpc';

export const CLUSTER = 'aws:eks/cluster:Cluster';

export const NODE_GROUP = 'aws:eks/nodeGroup:NodeGroup';

export const LAUNCH_TEMPLATE = 'aws:ec2/launchTemplate:LaunchTemplate';

/** Path of the pod spec in each Kubernetes type. */
export const POD_SPEC: Readonly<Record<string, string>> = {
  'kubernetes:core/v1:Pod': 'spec',
  'kubernetes:apps/v1:Deployment': 'spec.template.spec',
  'kubernetes:apps/v1:StatefulSet': 'spec.template.spec',
  'kubernetes:apps/v1:DaemonSet': 'spec.template.spec',
  'kubernetes:apps/v1:ReplicaSet': 'spec.template.spec',
  'kubernetes:batch/v1:Job': 'spec.template.spec',
  'kubernetes:batch/v1:CronJob': 'spec.jobTemplate.spec.template.spec',
};

export const NODE_POOL = 'kubernetes:karpenter.sh/v1:NodePool';

/** Namespaces of node agents: drivers and device plugins need access to the node. */
export const NODE_NAMESPACES = ['kube-system', 'gpu-operator', 'gpu-node-agents'] as const;
