import type * as pulumi from '@pulumi/pulumi';
import type { EksVersion } from '../cluster/eks-versions';
import type { NamespaceArgs, TritonOptions } from '../triton/args';
import type { Values } from './fields';
import type { POOL_FIELDS } from './pool-fields';

/** A network: one that is made, or one that is there. */
export type NetworkSettings =
  | {
      kind: 'create';
      /** Addresses, "10.0.0.0/16". */
      cidr: string;
      zones: string[];
      natGateways: 'one' | 'per-zone';
      flowLogDays: number;
    }
  | { kind: 'existing'; vpcId: string; privateSubnetIds: string[] };

/** A cluster: an EKS cluster that is made, or whatever is there. */
export type ClusterSettings =
  | {
      kind: 'create';
      name: string;
      version: EksVersion;
      autoMode: boolean;
      systemNodes: { instanceTypes: string[]; count: number };
      /** ARNs of IAM roles and users. */
      admins: string[];
      /** Empty: the API is reached from inside of the VPC only. */
      publicAccessCidrs: string[];
      logDays: number;
      network: NetworkSettings;
    }
  | {
      kind: 'existing';
      /** Text (then secret) or path; undefined: the first file of KUBECONFIG, or ~/.kube/config. */
      kubeconfig: string | undefined;
      context: string | undefined;
      /** Undefined: pods cannot take IAM roles. */
      oidcProviderArn: string | undefined;
    };

/** A GPU node pool with all of its defaults. */
export type GpuNodePoolSettings = Values<typeof POOL_FIELDS>;

/** A GPU node pool as one writes it: a name, machines, and what differs from the defaults (settings/pool-fields.ts). */
export type GpuNodePoolInput = Pick<GpuNodePoolSettings, 'name' | 'instanceTypes'> & Partial<GpuNodePoolSettings>;

/** The bucket of the models. */
export type ModelRepositorySettings = {
  prefix: string;
  /** Of the bucket. */
  region: string;
} & (
  | { kind: 'create'; readers: string[]; forceDestroy: boolean; oldVersionDays: number; accessLogDays: number }
  | { kind: 'existing'; bucket: string; kmsKeyArn: string | undefined }
  | {
      /** An S3 API that is not AWS's. */
      kind: 'elsewhere';
      bucket: string;
      endpointUrl: string;
      accessKeyId: pulumi.Output<string>;
      secretAccessKey: pulumi.Output<string>;
    }
);

/** Who publishes from outside, by tokens of an OpenID Connect issuer. */
export interface PublisherSettings {
  subjects: string[];
  issuer: string;
  audience: string;
  /** Undefined: the IAM provider of the issuer is made. */
  providerArn: string | undefined;
}

/** What a stack file says of the servers: some of it always, the rest where it differs from TritonServer's defaults. */
export type TritonSettings = TritonOptions &
  Required<Pick<TritonOptions, 'replicas' | 'gpusPerPod' | 'exposure' | 'publisherGroup'>> & {
    namespace: Required<NamespaceArgs>;
  };

/** All that a stack's configuration says. */
export interface Settings {
  stack: string;
  /** AWS region of what is made. The bucket may be in another one. */
  region: string;
  /** Of `aws:defaultTags`: Pulumi's provider sets them on what it makes, and nodes are made by others. */
  tags: Readonly<Record<string, string>>;
  /** Pulumi refuses to delete what cannot be made again. */
  protect: boolean;
  cluster: ClusterSettings;
  gpuNodePools: GpuNodePoolSettings[];
  modelRepository: ModelRepositorySettings;
  /** Undefined: no role for publishing is made. */
  publisher: PublisherSettings | undefined;
  triton: TritonSettings;
  /** Undefined: Kubernetes objects are applied. */
  renderManifestsTo: string | undefined;
}
