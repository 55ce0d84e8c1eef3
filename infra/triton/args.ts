import type * as pulumi from '@pulumi/pulumi';
import type { TaintEffect } from '../gpu/gpu-labels';

/** How Triton gets to the bucket. */
export type RepositoryCredentials =
  | {
      kind: 'role';
      /** IAM role that the pods' service account takes (IRSA); it needs to read the prefix and nothing else. */
      roleArn: pulumi.Input<string>;
    }
  | {
      /** For an S3 API that is not AWS's. */
      kind: 'static-keys';
      accessKeyId: pulumi.Input<string>;
      /** Kept in a Secret. */
      secretAccessKey: pulumi.Input<string>;
    };

/** The namespace of the pods. */
export interface NamespaceArgs {
  /** Default: the name of the component. */
  name?: string;
  /** False for one that is there already, whose labels are then somebody else's. Default: true. */
  create?: boolean;
}

/** A taint that pods accept, as Kubernetes writes it. */
export interface Toleration {
  key: string;
  /** Default: Equal when there is a value, else Exists. */
  operator?: 'Equal' | 'Exists';
  value?: string;
  /** Default: every effect. */
  effect?: TaintEffect;
}

/** What one pod gets. Memory includes `sharedMemoryGiB`. */
export interface PodResources {
  /** Cores that are kept for it; it may use more when others do not. Default: 2. */
  cpu?: number;
  /** Cores it may use at most. Default: twice `cpu`. */
  cpuLimit?: number;
  /** GiB of memory, request and limit alike. Default: 8. */
  memoryGiB?: number;
  /** GiB of /dev/shm, where the python backend passes tensors; it counts as memory. Default: 1. */
  sharedMemoryGiB?: number;
  /** GiB on disk for the models that are downloaded: all of them, and twice the largest. Default: 20. */
  scratchGiB?: number;
}

/** From the start of the container to its HTTP port, which opens when every model is loaded. Not in it: the image pull. */
export interface StartupBudget {
  /** Downloading every model, one file after the other. Default: 300 s. */
  downloadSeconds?: number;
  /** Loading them into memory and onto the GPU. Default: 180 s. */
  loadSeconds?: number;
  /** Their `model_warmup` requests. Default: 120 s. */
  warmUpSeconds?: number;
}

/** How long a pod takes to end. */
export interface ShutdownArgs {
  /** It goes on serving so long, until nobody sends it requests any more. Default: 15 s. */
  drainSeconds?: number;
  /** Then open requests are given this long (--exit-timeout-secs). Default: 30 s. */
  exitTimeoutSeconds?: number;
}

/** What may be missing while pods are replaced, by an update or because a node goes. */
export interface RolloutArgs {
  /**
   * `in-place` ends a pod before its successor starts, so it works with no spare GPU.
   * `surge` starts the successor first, and needs room for one pod more. Default: in-place.
   */
  strategy?: 'in-place' | 'surge';
  /** Pods that may be missing at once: the disruption budget, and the pace of an in-place update. Default: 1. */
  maxUnavailable?: number;
}

/** Who reaches the servers from outside of the cluster. Inside, the Service NAME.NAMESPACE is there always. */
export type Exposure =
  | { kind: 'cluster' }
  | {
      /** A network load balancer with an address inside of the VPC, for HTTP and gRPC. */
      kind: 'internal-load-balancer';
      /** Who may call, as CIDRs. */
      clientCidrs: string[];
      /** Where the load balancer's own addresses are (health checks come from there): its subnets or the VPC. */
      loadBalancerCidrs: pulumi.Input<pulumi.Input<string>[]>;
      /** Default: eks.amazonaws.com/nlb, which is EKS Auto Mode's; AWS Load Balancer Controller has service.k8s.aws/nlb. */
      loadBalancerClass?: string;
    }
  | {
      /** HTTP with TLS and authentication. Only inference, metadata and health: not the model control API. */
      kind: 'ingress';
      host: string;
      tls: IngressTls;
      authentication: IngressAuthentication;
      /** Where the ingress controller's addresses are: the subnets of its load balancer, or the VPC. */
      controllerCidrs: pulumi.Input<pulumi.Input<string>[]>;
      /** Which class of Ingress. Default: alb. */
      className?: string;
      /** Make that class, for EKS Auto Mode's controller, which comes without one. Default: false. */
      createAutoModeClass?: boolean;
      /** Default: internal. */
      scheme?: 'internal' | 'internet-facing';
      /** Who may call, as CIDRs. Default: everybody that reaches the address. */
      clientCidrs?: string[];
    };

export type IngressTls =
  | {
      /** A certificate of AWS Certificate Manager, with a controller of AWS. */
      kind: 'acm';
      certificateArn: pulumi.Input<string>;
    }
  | {
      /** A Secret of type kubernetes.io/tls in the namespace. */
      kind: 'secret';
      secretName: pulumi.Input<string>;
    };

export type IngressAuthentication =
  | {
      /** Clients show a certificate. For programs, with a controller of AWS. */
      kind: 'mutual-tls';
      /** Trust store of the load balancer that holds the authority of the clients' certificates. */
      trustStoreArn: pulumi.Input<string>;
    }
  | {
      /** Clients send a token (`Authorization: Bearer ...`). For programs, with AWS Load Balancer Controller 2.16 or newer. */
      kind: 'jwt';
      issuer: string;
      /** Address of the issuer's public keys. */
      jwksEndpoint: string;
    }
  | {
      /** People sign in with an OpenID Connect provider. With a controller of AWS. */
      kind: 'oidc';
      issuer: string;
      authorizationEndpoint: string;
      tokenEndpoint: string;
      userInfoEndpoint: string;
      clientId: pulumi.Input<string>;
      /** Kept in a Secret. */
      clientSecret: pulumi.Input<string>;
    }
  | {
      /** Annotations that make another controller authenticate. */
      kind: 'annotations';
      annotations: Record<string, pulumi.Input<string>>;
    };

/** Who may open connections to the pods. What is not named may not. */
export interface NetworkAccess {
  /** Namespaces whose pods may call HTTP and gRPC, besides the own one. Default: none. */
  clientNamespaces?: string[];
  /** Namespace of Prometheus, the only one that reads metrics. Default: monitoring. */
  monitoringNamespace?: string;
  /** Where AWS's APIs, or the S3 endpoint, are: the only destinations, besides DNS. Default: 0.0.0.0/0 without link-local. */
  egressCidrs?: string[];
  /** On which ports; of an endpoint inside of the cluster, the port of its pods. Default: that of `endpointUrl`, or 443. */
  egressPorts?: number[];
}

/** The number of replicas that follows the load. */
export interface AutoscalingArgs {
  /**
   * Who scales: `keda` (a ScaledObject that asks Prometheus; KEDA 2.17 or newer), or `custom-metrics` (a HorizontalPodAutoscaler,
   * the custom metrics API of an adapter such as prometheus-adapter, and the recording rule of `monitoring.alerts`).
   */
  kind: 'keda' | 'custom-metrics';
  /** At least 1: without a pod there is nothing that would tell of a queue. */
  minReplicas: number;
  maxReplicas: number;
  /** Mean time that requests to the slowest model wait in its queue, beyond which there are to be more pods. Default: 50 ms. */
  queueMilliseconds?: number;
  /**
   * Address of the Prometheus that KEDA asks. It has to read the pods' metrics as `monitoring.serviceMonitor` tells it to, under
   * the labels namespace, job (the name of the component) and pod. Default: http://prometheus-operated.MONITORING_NAMESPACE.svc:9090.
   */
  prometheusUrl?: string;
  /** Wait that long with fewer pods after the load went down: a new pod takes minutes to start. Default: 600 s. */
  scaleDownAfterSeconds?: number;
}

/** What needs the Prometheus operator's kinds, and Grafana's sidecar for the dashboard. */
export interface MonitoringArgs {
  /** ServiceMonitor: what to scrape. Default: true. */
  serviceMonitor?: boolean;
  /** PrometheusRule: alerts and the recording rule of the queue time. Default: true. */
  alerts?: boolean;
  /** ConfigMap with a Grafana dashboard. Default: true. */
  dashboard?: boolean;
  /** Labels by which Prometheus selects monitors and rules. Default: { release: 'kube-prometheus-stack' }. */
  selectorLabels?: Record<string, string>;
  /** How often metrics are read. Default: 15 s. */
  scrapeSeconds?: number;
}

/** Who may load and unload models, read and change trace and log settings, and register shared memory. */
export interface ModelControlArgs {
  /**
   * Triton answers such requests only with this value in the header `triton-model-control-key`
   * (gRPC: `triton-grpc-protocol-triton-model-control-key`). At least 16 letters, digits, `_` or `-`. Kept in a Secret.
   */
  key: pulumi.Input<string>;
}

/** What TritonServer may be told of the servers. */
export interface TritonOptions {
  namespace?: NamespaceArgs;
  /** With a version: a tag other than latest, or a digest. Default: NVIDIA's image of the release that the Dockerfile names. */
  image?: string;
  /** Pods, when there is no autoscaling. Default: 2. */
  replicas?: number;
  /** GPUs of each pod; 0 serves on CPUs. Default: 1. */
  gpusPerPod?: number;
  /** Labels of the nodes that pods may run on. Default: none. */
  nodeSelector?: Record<string, pulumi.Input<string>>;
  /** Taints that pods accept, besides nvidia.com/gpu, which pods with GPUs always accept. Default: none. */
  tolerations?: Toleration[];
  /** For clusters whose GPU pods need one, such as `nvidia`. Default: none. */
  runtimeClassName?: string;
  /** Which pods go first when nodes are short. Default: none. */
  priorityClassName?: string;
  resources?: PodResources;
  startup?: StartupBudget;
  shutdown?: ShutdownArgs;
  rollout?: RolloutArgs;
  /** Default: { kind: 'cluster' }. */
  exposure?: Exposure;
  network?: NetworkAccess;
  /** Default: none, `replicas` pods. */
  autoscaling?: AutoscalingArgs;
  /** Default: none. */
  monitoring?: MonitoringArgs;
  /** Default: whoever may call the HTTP API may load and unload models. */
  modelControl?: ModelControlArgs;
  /** Kubernetes group that may list the pods and forward ports to them, which is what publishing needs. Default: none. */
  publisherGroup?: string;
  /** Further arguments of tritonserver. Default: none. */
  extraArguments?: string[];
  /** Further environment variables. Default: none. */
  environment?: Record<string, pulumi.Input<string>>;
}

/** What TritonServer needs besides: where the models are. */
export interface TritonServerArgs extends TritonOptions {
  /** `s3://BUCKET/PREFIX`; at least one object has to be under the prefix, or Triton does not start. */
  modelRepository: pulumi.Input<string>;
  /** AWS region of the bucket. */
  region: pulumi.Input<string>;
  /** An S3 API that is not AWS's: `http://HOST:PORT` or `https://HOST:PORT`. Default: AWS. */
  endpointUrl?: pulumi.Input<string>;
  credentials: RepositoryCredentials;
}
