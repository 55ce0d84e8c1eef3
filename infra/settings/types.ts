import type * as pulumi from '@pulumi/pulumi';
import type { SupportType } from '../cluster/eks-versions';
import type { completeSettings } from '../triton/settings';
import type { AwsIdentity } from './aws-identity';
import type { Values } from './fields';
import type { POOL_FIELDS } from './pool-fields';
import type { TRITON_FIELDS } from './triton-fields';

/** A network that is created, or an existing one. */
export type NetworkSettings =
  | {
      kind: 'create';
      /** Address range, "10.0.0.0/16". */
      cidr: string;
      zones: string[];
      natGateways: 'one' | 'per-zone';
      flowLogDays: number;
    }
  | { kind: 'existing'; vpcId: string; privateSubnetIds: string[] };

/** An EKS cluster that is created, or an existing cluster of any kind. */
export type ClusterSettings =
  | {
      kind: 'create';
      name: string;
      /** "1.35" */
      version: string;
      support: SupportType;
      autoMode: boolean;
      systemNodes: { instanceTypes: string[]; count: number };
      /** ARNs of IAM roles and users. */
      admins: string[];
      /** ARNs of IAM roles. */
      viewers: string[];
      /** If empty, the API is reachable only from the VPC. */
      publicAccessCidrs: string[];
      logDays: number;
      /** Identity of Pulumi's AWS provider. */
      identity: AwsIdentity;
      network: NetworkSettings;
    }
  | {
      kind: 'existing';
      /** Text (then secret) or path. Default: the first file of KUBECONFIG, or ~/.kube/config. */
      kubeconfig: string | undefined;
      context: string | undefined;
      /** If undefined, the address of the API server identifies the cluster. */
      identifier: string | undefined;
      /** If undefined, pods cannot assume IAM roles. */
      oidcProviderArn: string | undefined;
    };

/** A GPU node pool with all defaults filled in. */
export type GpuNodePoolSettings = Values<typeof POOL_FIELDS>;

/**
 * A GPU node pool as users write it: a name, instance types, and all fields that differ from the defaults
 * (settings/pool-fields.ts).
 */
export type GpuNodePoolInput = Pick<GpuNodePoolSettings, 'name' | 'instanceTypes'> & Partial<GpuNodePoolSettings>;

/** The bucket of the models. */
export type ModelRepositorySettings = {
  prefix: string;
  /** Region of the bucket. */
  region: string;
} & (
  | { kind: 'create'; readers: string[]; forceDestroy: boolean; oldVersionDays: number; accessLogDays: number }
  | { kind: 'existing'; bucket: string; kmsKeyArn: string | undefined }
  | {
      /** An S3 API other than AWS's. */
      kind: 'elsewhere';
      bucket: string;
      endpointUrl: string;
      accessKeyId: pulumi.Output<string>;
      secretAccessKey: pulumi.Output<string>;
    }
);

/** Tokens of an OpenID Connect issuer that may publish from outside AWS. */
export interface PublisherSettings {
  subjects: string[];
  /** If empty, no pruner role is created. */
  prunerSubjects: string[];
  issuer: string;
  audience: string;
  /** If undefined, the IAM provider of the issuer is created, or looked up in the account. */
  providerArn: string | undefined;
  /** Whether to create the IAM provider of the issuer. Default: false. */
  createProvider?: boolean;
}

/** Settings of the replicas, with every default. */
export type TritonSettings = ReturnType<typeof completeSettings<Values<typeof TRITON_FIELDS>>> & {
  secretEnvironment: Record<string, string>;
  createIngressClass: boolean;
};

/** All settings of a stack. */
export interface Settings {
  stack: string;
  /** AWS region of all created resources. The bucket may be in another region. */
  region: string;
  /**
   * Tags of `aws:defaultTags`. The AWS provider sets them on the resources that it creates; nodes are created by
   * others.
   */
  tags: Readonly<Record<string, string>>;
  /** Pulumi refuses to delete resources that cannot be recreated. */
  protect: boolean;
  cluster: ClusterSettings;
  gpuNodePools: GpuNodePoolSettings[];
  modelRepository: ModelRepositorySettings;
  /** If undefined, no publisher role is created. */
  publisher: PublisherSettings | undefined;
  triton: TritonSettings;
}
