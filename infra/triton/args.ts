import type * as pulumi from '@pulumi/pulumi';
import type { TaintEffect } from '../gpu/gpu-labels';

/** How the agents authenticate to the bucket. */
export type RepositoryCredentials =
  | {
      kind: 'role';
      /**
       * IAM role that the agents assume (IRSA). It must only be able to read the prefix and the releases beside it, and trust
       * the service account NAME of the namespace.
       */
      roleArn: pulumi.Input<string>;
    }
  | {
      /** For an S3 API other than AWS's. */
      kind: 'static-keys';
      accessKeyId: pulumi.Input<string>;
      /** Kept in a Secret. */
      secretAccessKey: pulumi.Input<string>;
    };

/** The namespace of the pods. */
export interface NamespaceArgs {
  /** Default: the name of the component. */
  name?: string;
  /** False for an existing namespace, whose labels are then left unchanged. Default: true. */
  create?: boolean;
  /**
   * Pulumi refuses to delete the created namespace, because Kubernetes deletes all its objects too. Default: the option of
   * the component.
   */
  protect?: boolean;
}

/** A taint that pods tolerate, in Kubernetes' format. */
export interface Toleration {
  key: string;
  /** Default: Equal if there is a value, otherwise Exists. */
  operator?: 'Equal' | 'Exists';
  value?: string;
  /** Default: every effect. */
  effect?: TaintEffect;
}

/** Resources of one pod. Memory includes `sharedMemoryGiB`. */
export interface PodResources {
  /** Requested cores. The pod may use more if others do not. Default: 2. */
  cpu?: number;
  /** Limit of cores. Default: twice `cpu`. */
  cpuLimit?: number;
  /** GiB of memory, which is both request and limit. Default: 8. */
  memoryGiB?: number;
  /** GiB of /dev/shm, through which the python backend passes tensors; part of the memory. Default: 1. */
  sharedMemoryGiB?: number;
  /**
   * GiB of disk for downloaded models: room for two releases, the one that the pod serves and the one that is published.
   * Default: 20.
   */
  scratchGiB?: number;
}

/**
 * Time until a new pod serves all models, without the image pull, during which downloads already run. Alerts and timeouts
 * follow it. It restarts nothing.
 */
export interface StartupBudget {
  /** For downloading all models, in parallel. Default: 300 s. */
  downloadSeconds?: number;
  /** For loading them into memory and onto the GPU. Default: 180 s. */
  loadSeconds?: number;
  /** For their `model_warmup` requests. Default: 120 s. */
  warmUpSeconds?: number;
}

/** How long a pod takes to stop. */
export interface ShutdownArgs {
  /**
   * How long the pod keeps serving after a stop was requested, while load balancers deregister it. Default: 15 s; with an
   * ingress 30 s, with a load balancer 120 s.
   */
  drainSeconds?: number;
  /** How long open requests may then take (--exit-timeout-secs). Default: 30 s. */
  exitTimeoutSeconds?: number;
}

/** Which pods may be unavailable while pods are replaced, by an update or because a node is removed. */
export interface RolloutArgs {
  /**
   * `in-place` stops a pod before its replacement starts, so it needs no spare GPU.
   * `surge` starts the replacement first, so it needs room for one more pod. Default: in-place.
   */
  strategy?: 'in-place' | 'surge';
  /**
   * Pods that may be unavailable at once: the disruption budget, and the batch size of an in-place update. Default: 1.
   */
  maxUnavailable?: number;
}

/**
 * How clients outside the cluster reach the replicas. Inside the cluster, the Service NAME.NAMESPACE is always
 * available.
 */
export type Exposure =
  | { kind: 'cluster' }
  | {
      /** A network load balancer with an address in the VPC, for HTTP and gRPC. */
      kind: 'internal-load-balancer';
      /** CIDRs of clients that may send requests. */
      clientCidrs: string[];
      /** CIDRs of the load balancer itself, which sends the health checks: its subnets or the VPC. */
      loadBalancerCidrs: pulumi.Input<pulumi.Input<string>[]>;
      /** Default: eks.amazonaws.com/nlb of EKS Auto Mode. The AWS Load Balancer Controller has service.k8s.aws/nlb. */
      loadBalancerClass?: string;
    }
  | {
      /** HTTP with TLS. Only inference, metadata and health, not the model control API. */
      kind: 'ingress';
      host: string;
      tls: IngressTls;
      /**
       * Further annotations for the controller, such as those with which it authenticates clients. Required with a Secret
       * and with an address on the internet.
       */
      annotations?: Record<string, pulumi.Input<string>>;
      /** CIDRs of the ingress controller: the subnets of its load balancer, or the VPC. */
      controllerCidrs: pulumi.Input<pulumi.Input<string>[]>;
      /** IngressClass. Default: alb. */
      className?: string;
      /**
       * Whether to create this class for the controller of EKS Auto Mode, which has none by default. Default: false.
       */
      createAutoModeClass?: boolean;
      /** Default: internal. */
      scheme?: 'internal' | 'internet-facing';
      /** CIDRs of clients that may send requests. Default: all that can reach the address. */
      clientCidrs?: string[];
    };

export type IngressTls =
  | {
      /** A certificate of AWS Certificate Manager, for controllers of AWS. */
      kind: 'acm';
      certificateArn: pulumi.Input<string>;
    }
  | {
      /** A Secret of type kubernetes.io/tls in the namespace. */
      kind: 'secret';
      secretName: pulumi.Input<string>;
    };

/** Peers that may open connections to the pods. All others are rejected. */
export interface NetworkAccess {
  /** Namespaces whose pods may use HTTP and gRPC, in addition to the own namespace. Default: none. */
  clientNamespaces?: string[];
  /** Namespace of Prometheus, the only one that may read metrics. Default: monitoring. */
  monitoringNamespace?: string;
  /**
   * CIDRs of AWS's APIs or of the S3 endpoint, the only allowed destinations except DNS. Default: 0.0.0.0/0 without
   * link-local.
   */
  egressCidrs?: string[];
  /**
   * TCP ports of these destinations, at least one. For an endpoint in the cluster, the port of its pods. Default: that
   * of `endpointUrl`, or 443.
   */
  egressPorts?: number[];
}

/** Scales the number of replicas with the load. */
export interface AutoscalingArgs {
  /**
   * The autoscaler: `keda` (a ScaledObject that queries Prometheus; KEDA 2.17 or newer), or `custom-metrics` (a
   * HorizontalPodAutoscaler, which needs the custom metrics API of an adapter such as prometheus-adapter, and the
   * recording rules of `monitoring.alerts`).
   */
  kind: 'keda' | 'custom-metrics';
  /** At least 1, because without a pod there are no metrics of a queue. */
  minReplicas: number;
  maxReplicas: number;
  /** Mean queue time of the slowest model above which replicas are added. Default: 50 ms. */
  queueMilliseconds?: number;
  /**
   * Number of instances in a replica, of the model that determines the load or of all steps of an ensemble. Replicas are added
   * while more batches are in flight than these instances compute, and half a batch. A request that Triton does not batch
   * counts as a batch. Default: 1.
   */
  instancesPerReplica?: number;
  /**
   * Address of the Prometheus that KEDA queries. It must scrape the pods as configured by `monitoring.serviceMonitor`,
   * with the labels namespace, job (the name of the component) and pod. Default:
   * http://prometheus-operated.MONITORING_NAMESPACE.svc:9090.
   */
  prometheusUrl?: string;
  /**
   * How long to wait after the load decreased before replicas are removed, because a new pod takes minutes to start.
   * Default: 600 s.
   */
  scaleDownAfterSeconds?: number;
}

/** Objects that need the CRDs of the Prometheus operator; the dashboard needs Grafana's sidecar. */
export interface MonitoringArgs {
  /** ServiceMonitor, which makes Prometheus scrape the pods. Default: true. */
  serviceMonitor?: boolean;
  /** PrometheusRule with alerts and the recording rules of the load. Default: true. */
  alerts?: boolean;
  /** ConfigMap with a Grafana dashboard. Default: true. */
  dashboard?: boolean;
  /** Labels by which Prometheus selects monitors and rules. Default: { release: 'kube-prometheus-stack' }. */
  selectorLabels?: Record<string, string>;
  /** Seconds between scrapes. Default: 15 s. */
  scrapeSeconds?: number;
  /**
   * Address of docs/runbook.md, to which the annotation `runbook_url` of each alert adds `#ALERT`. Default:
   * docs/runbook.md, which is no link.
   */
  runbookUrl?: string;
}

/**
 * Objectives for the requests to each model. They add alerts, which fire if the requests of some minutes or hours exceed them
 * by far.
 */
export interface SloArgs {
  /** Time in Triton that 99 of 100 requests must not exceed, including the queue. */
  p99Milliseconds?: number;
  /** Share of the requests that may fail, at most 0.05, because 14.4 times this share must be possible. */
  errorRate?: number;
}

/** Triton sends the spans of requests to an OpenTelemetry collector. */
export interface TracingArgs {
  /**
   * Base address of a receiver of OTLP over HTTP, such as http://collector.monitoring.svc:4318; `/v1/traces` is added. The
   * network policy allows its port: in the namespace of a Service NAME.NAMESPACE.svc, otherwise in `network.egressCidrs`.
   */
  otlpEndpoint: string;
  /**
   * Share of requests that are traced, from 0 to 1, which is rounded to one of N requests. Requests with a `traceparent` are
   * always traced. Default: 0.
   */
  sampleRate?: number;
}

/** Options of TritonServer. */
export interface TritonOptions {
  namespace?: NamespaceArgs;
  /** Image with a tag other than latest, or with a digest. Default: NVIDIA's image of the release in the Dockerfile. */
  image?: string;
  /**
   * Image of the release agent, which runs beside each Triton and has it serve the current release of the model repository:
   * Node.js 20 or newer and a shell, with a digest or a tag other than latest. The program is not part of it: pods mount it.
   * Default: the official image of Node.js.
   */
  agentImage?: string;
  /** Number of pods without autoscaling. Default: 2. */
  replicas?: number;
  /**
   * With autoscaling, leaves `replicas` out of the Deployment, because a tool that applies it again and again would reset the
   * number each time. Default: false.
   */
  omitReplicas?: boolean;
  /** GPUs of each pod; 0 serves on CPUs. Default: 1. */
  gpusPerPod?: number;
  /**
   * Whether nodes may offer a GPU several times (time slices), so that a pod may get fewer GPUs than it requests. If true,
   * only a pod that sees no GPU fails to start; otherwise also one that sees fewer than `gpusPerPod`. Default: true.
   */
  sharedGpus?: boolean;
  /** Whether several pods may run on a node, because nodes have GPUs for several. Default: they prefer different nodes. */
  sharedNodes?: boolean;
  /** Labels of the nodes that pods may run on. Default: none. */
  nodeSelector?: Record<string, pulumi.Input<string>>;
  /** Tolerated taints in addition to nvidia.com/gpu, which pods with GPUs always tolerate. Default: none. */
  tolerations?: Toleration[];
  /** Runtime class, for clusters whose GPU pods need one, such as `nvidia`. Default: none. */
  runtimeClassName?: string;
  /** Priority class, which decides which pods are evicted if nodes are short. Default: none. */
  priorityClassName?: string;
  resources?: PodResources;
  startup?: StartupBudget;
  shutdown?: ShutdownArgs;
  rollout?: RolloutArgs;
  /** Default: { kind: 'cluster' }. */
  exposure?: Exposure;
  /**
   * Tags of the load balancer. With EKS Auto Mode, the role of the cluster must be allowed to set them, otherwise no load
   * balancer is created. Default: none.
   */
  loadBalancerTags?: Readonly<Record<string, string>>;
  network?: NetworkAccess;
  /** Default: none, so that there are `replicas` pods. */
  autoscaling?: AutoscalingArgs;
  /** Default: none. */
  monitoring?: MonitoringArgs;
  /** Default: none. Requires `monitoring.alerts`. */
  slo?: SloArgs;
  /** Default: none. */
  tracing?: TracingArgs;
  /** Kubernetes group that may list the pods and forward ports to them, as publishing requires. Default: none. */
  publisherGroup?: string;
  /** Further arguments of tritonserver. Default: none. */
  extraArguments?: string[];
  /** Further environment variables. Default: none. */
  environment?: Record<string, pulumi.Input<string>>;
  /** Further environment variables that are kept in a Secret. Default: none. */
  secretEnvironment?: Record<string, pulumi.Input<string>>;
}

/** Arguments of TritonServer: its options, and the location of the models. */
export interface TritonServerArgs extends TritonOptions {
  /** `s3://BUCKET/PREFIX` */
  modelRepository: pulumi.Input<string>;
  /** AWS region of the bucket. */
  region: pulumi.Input<string>;
  /** An S3 API other than AWS's: `http://HOST:PORT` or `https://HOST:PORT`. Default: AWS. */
  endpointUrl?: pulumi.Input<string>;
  credentials: RepositoryCredentials;
}
