import type { ModelDevice } from '../../../src/release/agent-api';

/** A node of a GPU pool. */
export interface GpuNode {
  name: string;
  /** Name of its pool; undefined without the label. */
  pool: string | undefined;
  /** "g5.xlarge" */
  instanceType: string | undefined;
  /** When it joined the cluster. */
  createdAt: Date | undefined;
  ready: boolean;
  /** Why it is not ready, as the kubelet reports it. */
  reason: string | undefined;
  /** GPUs that pods can request, or slices of them. */
  gpus: number;
  /** Size of the file system of images and pods. */
  storageGiB: number;
  /** Driver version in the labels of NVIDIA's GPU feature discovery, which not every node has. */
  driver: string | undefined;
}

/** A pod of Triton. */
export interface ReplicaPod {
  name: string;
  /** Undefined while the pod is pending. */
  node: string | undefined;
  ready: boolean;
  /** Whether the container of Triton runs. */
  running: boolean;
  /** Why the pod is not ready. */
  reason: string | undefined;
  /** Image of Triton's container. */
  image: string;
}

/** The longest pull of Triton's image for a pod. */
export interface ImagePull {
  pod: string;
  /** With the time that the pull waited for other pulls. */
  seconds: number;
}

/** The models and GPUs of a pod. */
export interface Serving {
  /** GPUs that Triton sees; undefined if it did not answer. */
  gpus: number | undefined;
  /** Device null: a model without instances, such as an ensemble. */
  models: { name: string; device: ModelDevice | null }[];
  /** Why the agent serves no release, or why the pod did not answer. */
  problem: string | null;
}

/** The requests of the doctor to the cluster of a stack. Every method may throw a UserError. */
export interface ServingCluster {
  readonly namespace: string;
  /** The nodes of all GPU pools in the cluster, without those that are being deleted. */
  nodes(): Promise<GpuNode[]>;
  replicas(): Promise<ReplicaPod[]>;
  /** Pulls of the replicas in the last hour, for which EKS keeps events. */
  pulls(): Promise<ImagePull[]>;
  /** The start of the log of Triton's container, which NVIDIA's entry point writes. */
  log(pod: string): Promise<string>;
  /** Models and GPUs of the running pods, by pod. */
  serving(): Promise<ReadonlyMap<string, Serving>>;
  /** Host names or IP addresses of the load balancers of the stack. */
  loadBalancers(): Promise<string[]>;
  close(): Promise<void>;
}
