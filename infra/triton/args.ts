// Generated from infra/settings/triton-fields.ts: UPDATE_DOCS=1 npx jest unit/infra/argument-types
import type * as pulumi from '@pulumi/pulumi';

/** How the agents authenticate to the bucket: roleArn, or accessKeyId with secretAccessKey. */
export interface CredentialsArgs {
  /**
   * ARN of the IAM role that the agents assume (IRSA). It must only be able to read the prefix and the releases beside
   * it, and trust the service account NAME of the namespace. Allowed: the ARN of an IAM role.
   */
  roleArn?: pulumi.Input<string> | undefined;
  /** Id of an access key, for an S3 API other than AWS's. */
  accessKeyId?: pulumi.Input<string> | undefined;
  /** Secret of the access key, which is kept in a Secret. */
  secretAccessKey?: pulumi.Input<string> | undefined;
}

/** Kubernetes namespace of the replicas. */
export interface NamespaceArgs {
  /**
   * Kubernetes namespace of the replicas. A change creates all objects and replicas in the new namespace, and then
   * deletes the old ones. Empty: the name of the component, which is triton in a stack. Allowed: at most 63 lower-case
   * letters, digits and hyphens.
   */
  name?: string | undefined;
  /**
   * Whether to create the namespace. If false, the namespace must exist, and its labels are left unchanged. A stack
   * that created the namespace then releases it: the namespace stays, and no longer belongs to the stack. In a program
   * of your own, first delete it from the state, or Pulumi deletes the namespace with everything in it. Default: true.
   */
  create?: boolean | undefined;
}

/** Release agent, which runs beside each Triton and loads the current release of the models. */
export interface AgentArgs {
  /**
   * Image with Node.js 20 or newer and a shell, with a version or digest. The program is not part of it: pods mount it.
   * Empty: the official image of Node.js, from AWS's public registry. Allowed: IMAGE:VERSION (not latest) or
   * IMAGE@sha256:DIGEST.
   */
  image?: string | undefined;
}

/** Taints that the replicas tolerate, in addition to nvidia.com/gpu and to those of gpuNodePools. */
export interface TolerationArgs {
  /**
   * Key of the taint. Allowed: at most 63 letters, digits, "-", "_" and ".", after a domain and "/" if it has one:
   * "example.com/team".
   */
  key: string;
  /**
   * How to compare the value of the taint: Equal or, for any value, Exists. Default: Equal if there is a value,
   * otherwise Exists.
   */
  operator?: 'Equal' | 'Exists' | undefined;
  /** Value of the taint. Allowed: at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends. */
  value?: string | undefined;
  /** Effect of the taint. Default: every effect. */
  effect?: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute' | undefined;
}

/** Parts of the PodSpec, with its names. */
export interface PodArgs {
  /** Labels of the nodes that replicas run on, in addition to those of gpuNodePools. */
  nodeSelector?: Record<string, pulumi.Input<string>> | undefined;
  /** Taints that the replicas tolerate, in addition to nvidia.com/gpu and to those of gpuNodePools. */
  tolerations?: TolerationArgs[] | undefined;
  /**
   * Runtime class of the pods, such as nvidia, for clusters whose GPU pods need one. Empty: none. Allowed: the name of
   * an object, "registry-key": lower-case letters, digits, hyphens and dots.
   */
  runtimeClassName?: string | undefined;
  /**
   * Priority class of the pods. Empty: none. Allowed: the name of an object, "registry-key": lower-case letters,
   * digits, hyphens and dots.
   */
  priorityClassName?: string | undefined;
  /**
   * Names of Secrets in the namespace with which nodes pull the images. Allowed: the name of an object, "registry-key":
   * lower-case letters, digits, hyphens and dots.
   */
  imagePullSecrets?: string[] | undefined;
}

/** Resources of one replica. */
export interface ResourcesArgs {
  /** Requested CPU cores. The limit is twice as many. Allowed: a number from 0.1 to 256. Default: 2. */
  cpu?: number | undefined;
  /** Memory in GiB, which is both request and limit. Allowed: a whole number from 1 to 16384. Default: 8. */
  memoryGiB?: number | undefined;
  /**
   * Size of /dev/shm in GiB, a part of memoryGiB, through which the python backend passes tensors. Allowed: a whole
   * number from 1 to 16384. Default: 1.
   */
  sharedMemoryGiB?: number | undefined;
  /**
   * Disk for downloaded models in GiB: room for two releases, the one that is served and the one that is published.
   * Allowed: a whole number from 1 to 16384. Default: 20.
   */
  scratchGiB?: number | undefined;
}

/** How an update replaces replicas, with the names of a Deployment. */
export interface RolloutArgs {
  /**
   * Number of replicas that may start before others stop. Each needs spare GPUs. Allowed: a whole number from 0 to
   * 1000. Default: 0.
   */
  maxSurge?: number | undefined;
  /**
   * Number of replicas that may be unavailable at the same time, in an update or because nodes are drained, which may
   * always evict one. Allowed: a whole number from 0 to 1000. Default: 1.
   */
  maxUnavailable?: number | undefined;
}

/**
 * How clients outside the cluster reach the replicas. The kind internal-load-balancer requires clientCidrs; the kind
 * ingress requires host, and one of certificateArn and tlsSecretName.
 */
export interface ExposureArgs {
  /**
   * Clients that can reach the replicas: those in the cluster, those in the VPC through a network load balancer, or
   * those of other networks through an ingress with TLS, which excludes model control. A change deletes the present
   * load balancer or ingress, with its address. Default: cluster.
   */
  kind?: 'cluster' | 'internal-load-balancer' | 'ingress' | undefined;
  /**
   * IP ranges of clients that may send requests through the load balancer or ingress. Empty: every address that can
   * reach the ingress; a load balancer requires at least one range. Allowed: a range, "10.0.0.0/16".
   */
  clientCidrs?: string[] | undefined;
  /**
   * IP ranges of the load balancer or ingress controller; required if the VPC is not created by the stack. Every
   * machine and pod with an address in them reaches port 8000. Empty: the public subnets for an ingress that faces the
   * internet, otherwise the private subnets, in which the pods are too. Allowed: a range, "10.0.0.0/16".
   */
  controllerCidrs?: pulumi.Input<pulumi.Input<string>[]> | undefined;
  /**
   * Class of the load balancer, such as service.k8s.aws/nlb of AWS Load Balancer Controller. A change creates a load
   * balancer with another address before it deletes the present one. Empty: eks.amazonaws.com/nlb of EKS Auto Mode.
   * Allowed: at most 63 letters, digits, "-", "_" and ".", after a domain and "/" if it has one: "example.com/team".
   */
  loadBalancerClass?: string | undefined;
  /** Host name of the ingress. Allowed: a name such as triton.example.com. */
  host?: string | undefined;
  /**
   * Ingress class. Allowed: the name of an object, "registry-key": lower-case letters, digits, hyphens and dots.
   * Default: alb.
   */
  className?: string | undefined;
  /** Whether the ingress has an address in the VPC or on the internet. Default: internal. */
  scheme?: 'internal' | 'internet-facing' | undefined;
  /**
   * ARN of a certificate of AWS Certificate Manager, for the ingress controllers of AWS. Allowed: an ARN,
   * "arn:aws:acm:REGION:123456789012:certificate/...".
   */
  certificateArn?: pulumi.Input<string> | undefined;
  /**
   * Name of a Secret of type kubernetes.io/tls with the certificate, for other ingress controllers. Allowed: the name
   * of an object, "registry-key": lower-case letters, digits, hyphens and dots.
   */
  tlsSecretName?: pulumi.Input<string> | undefined;
  /**
   * Further annotations of the ingress, such as those with which the controller authenticates clients. Required with
   * tlsSecretName, or with the scheme internet-facing.
   */
  annotations?: Record<string, pulumi.Input<string>> | undefined;
}

/**
 * Scales the number of replicas with the queue time and the batches in flight, with KEDA 2.17 or newer. Replicas are
 * removed after 10 minutes of lower load. Empty: replicas decides.
 */
export interface AutoscalingArgs {
  /**
   * Smallest number of replicas. Without a replica there are no metrics of a queue. Allowed: a whole number from 1 to
   * 1000.
   */
  minReplicas: number;
  /** Largest number of replicas. Allowed: a whole number from 1 to 1000. */
  maxReplicas: number;
  /**
   * Mean queue time of the slowest model, in milliseconds, above which replicas are added. Allowed: a whole number from
   * 1 to 600000. Default: 50.
   */
  queueMilliseconds?: number | undefined;
  /**
   * Number of instances in a replica, of the model that determines the load or of all steps of an ensemble; replicas
   * are added while more than half a batch waits for them. Allowed: a whole number from 1 to 1000. Default: 1.
   */
  instancesPerReplica?: number | undefined;
  /**
   * URL of the Prometheus that KEDA queries, with the labels namespace, job and pod. Empty:
   * http://prometheus-operated.NAMESPACE.svc:9090 in the namespace of monitoring. Allowed: a URL,
   * "http://prometheus.monitoring.svc:9090".
   */
  prometheusUrl?: string | undefined;
}

/** Objectives for each model, with alerts on how fast its requests use up what may miss them. Empty: none. */
export interface SloArgs {
  /**
   * Time in Triton, in milliseconds, that 99 of 100 requests to each model must not exceed, including the queue.
   * Allowed: a whole number from 1 to 600000.
   */
  p99Milliseconds?: number | undefined;
  /**
   * Share of the requests to each model that may fail: 0.001 is one in a thousand. Allowed: a number from 0.00001 to
   * 0.05.
   */
  errorRate?: number | undefined;
}

/**
 * A ServiceMonitor, a PrometheusRule with alerts and a Grafana dashboard, for the Prometheus operator and the sidecar
 * of Grafana. Set at least one member. Empty: none of these objects, and the namespace monitoring may read metrics.
 */
export interface MonitoringArgs {
  /**
   * Namespace of Prometheus, the only one that may read metrics. Allowed: at most 63 lower-case letters, digits and
   * hyphens. Default: monitoring.
   */
  namespace?: string | undefined;
  /** Labels by which Prometheus selects monitors and rules. Default: {"release":"kube-prometheus-stack"}. */
  selectorLabels?: Record<string, string> | undefined;
  /**
   * Address of docs/runbook.md where on-call people can read it. Each alert links to its section. The default is no
   * link. Allowed: a URL without #, such as https://git.example.com/serving/blob/main/docs/runbook.md. Default:
   * docs/runbook.md.
   */
  runbookUrl?: string | undefined;
  /** Objectives for each model, with alerts on how fast its requests use up what may miss them. Empty: none. */
  slo?: SloArgs | undefined;
}

/** Triton sends traces of requests to an OpenTelemetry collector. Empty: no traces. */
export interface TracingArgs {
  /**
   * URL of the OTLP/HTTP receiver of an OpenTelemetry collector. The NetworkPolicy allows its port: in the namespace of
   * a Service NAME.NAMESPACE.svc, otherwise in egressCidrs. Allowed: a URL without /v1/traces, such as
   * http://collector.monitoring.svc:4318.
   */
  otlpEndpoint: string;
  /**
   * Share of requests that are traced, rounded to one of N. Requests with the header traceparent are always traced.
   * Allowed: a number from 0 to 1. Default: 0.
   */
  sampleRate?: number | undefined;
}

/** Arguments of TritonServer. */
export interface TritonServerArgs {
  /** Location of the models, s3://BUCKET/PREFIX. Allowed: s3://BUCKET/PREFIX. */
  modelRepository: pulumi.Input<string>;
  /** Region of the bucket. Allowed: a region such as eu-central-1. */
  region: pulumi.Input<string>;
  /**
   * URL of an S3 API other than AWS's, http://HOST:PORT or https://HOST:PORT. Empty: AWS. Allowed: "http://HOST:PORT"
   * or "https://HOST:PORT".
   */
  endpointUrl?: pulumi.Input<string> | undefined;
  /** How the agents authenticate to the bucket: roleArn, or accessKeyId with secretAccessKey. */
  credentials?: CredentialsArgs | undefined;
  /** Kubernetes namespace of the replicas. */
  namespace?: NamespaceArgs | undefined;
  /**
   * Image of Triton, with a version or digest. Empty: the image of NVIDIA for the release that the Dockerfile names.
   * Allowed: IMAGE:VERSION (not latest) or IMAGE@sha256:DIGEST.
   */
  image?: string | undefined;
  /**
   * Ids of critical vulnerabilities of the image that are accepted. The image of a Triton release with another known
   * one is refused. Allowed: an id, "CVE-2026-24207".
   */
  acceptedVulnerabilities?: string[] | undefined;
  /** Release agent, which runs beside each Triton and loads the current release of the models. */
  agent?: AgentArgs | undefined;
  /** Number of replicas if autoscaling is empty. Allowed: a whole number from 0 to 1000. Default: 2. */
  replicas?: number | undefined;
  /**
   * Number of GPUs of each replica; with 0 the replicas run on CPUs. Allowed: a whole number from 0 to 16. Default: 1.
   */
  gpusPerPod?: number | undefined;
  /** Parts of the PodSpec, with its names. */
  pod?: PodArgs | undefined;
  /** Resources of one replica. */
  resources?: ResourcesArgs | undefined;
  /**
   * Seconds in which a new replica downloads and loads all models, half of them for the downloads. Alerts and timeouts
   * follow it; it restarts nothing. Allowed: a whole number from 10 to 86400. Default: 600.
   */
  startSeconds?: number | undefined;
  /**
   * Seconds for which a replica keeps serving after a stop was requested, while load balancers deregister it. Empty:
   * 15; with an ingress 30, with a load balancer 120. Allowed: a whole number from 1 to 3600.
   */
  drainSeconds?: number | undefined;
  /** How an update replaces replicas, with the names of a Deployment. */
  rollout?: RolloutArgs | undefined;
  /**
   * How clients outside the cluster reach the replicas. The kind internal-load-balancer requires clientCidrs; the kind
   * ingress requires host, and one of certificateArn and tlsSecretName.
   */
  exposure?: ExposureArgs | undefined;
  /**
   * Namespaces whose pods may send requests, in addition to the namespace of the replicas. Allowed: at most 63
   * lower-case letters, digits and hyphens.
   */
  clientNamespaces?: string[] | undefined;
  /**
   * IP ranges to which the replicas may open connections, such as those of AWS's APIs, on the port of the S3 API and
   * that of tracing. A NetworkPolicy of your own can allow more. Empty: all except link-local addresses. Allowed: a
   * range, "10.0.0.0/16".
   */
  egressCidrs?: string[] | undefined;
  /**
   * Scales the number of replicas with the queue time and the batches in flight, with KEDA 2.17 or newer. Replicas are
   * removed after 10 minutes of lower load. Empty: replicas decides.
   */
  autoscaling?: AutoscalingArgs | undefined;
  /**
   * A ServiceMonitor, a PrometheusRule with alerts and a Grafana dashboard, for the Prometheus operator and the sidecar
   * of Grafana. Set at least one member. Empty: none of these objects, and the namespace monitoring may read metrics.
   */
  monitoring?: MonitoringArgs | undefined;
  /** Triton sends traces of requests to an OpenTelemetry collector. Empty: no traces. */
  tracing?: TracingArgs | undefined;
  /**
   * Compute capabilities of the GPUs, for which "npm run build" compiles models: 7.5 is a T4, 8.9 an L4. Empty: those
   * of gpuNodePools. Allowed: a compute capability, such as "8.9".
   */
  gpuCapabilities?: string[] | undefined;
  /**
   * Arguments of tritonserver, --NAME=VALUE each, in addition to those that this package sets. Allowed: --NAME=VALUE,
   * but not model-repository, model-control-mode, load-model, strict-readiness, exit-on-error, exit-timeout-secs,
   * http-port, http-address, grpc-port, grpc-address, metrics-port, metrics-address, allow-http, allow-grpc,
   * allow-metrics, allow-gpu-metrics, http-restricted-api, grpc-restricted-protocol, model-store, allow-sagemaker,
   * allow-vertex-ai.
   */
  extraArguments?: string[] | undefined;
  /**
   * Environment variables of the replicas, in addition to those that this package sets. If one of them is encrypted in
   * a stack file ("pulumi config set --secret --path environment.NAME"), all are kept in a Secret; a program writes
   * secrets to secretEnvironment.
   */
  environment?: Record<string, pulumi.Input<string>> | undefined;
  /** Further environment variables, which are kept in a Secret. */
  secretEnvironment?: Record<string, pulumi.Input<string>> | undefined;
  /**
   * Whether Pulumi refuses to delete the created namespace, because Kubernetes deletes all its objects too. Default:
   * the option of the component.
   */
  protect?: boolean | undefined;
  /**
   * With autoscaling, whether the Deployment has no number of replicas, because a tool that applies it repeatedly would
   * reset the number each time. Default: false.
   */
  omitReplicas?: boolean | undefined;
  /**
   * Whether nodes may offer a GPU several times (time slices), so that a pod may get fewer GPUs than it requests. If
   * true, only a pod that sees no GPU fails to start; otherwise also one that sees fewer than gpusPerPod. Default:
   * true.
   */
  sharedGpus?: boolean | undefined;
  /**
   * Whether several pods should run on a node that has GPUs for them. If false, they prefer different nodes. Default:
   * false.
   */
  sharedNodes?: boolean | undefined;
  /**
   * Whether to create exposure.className for the controller of EKS Auto Mode, which has no class by default. Default:
   * false.
   */
  createIngressClass?: boolean | undefined;
  /**
   * Tags of the load balancer. With EKS Auto Mode, the role of the cluster must be allowed to set them, otherwise no
   * load balancer is created.
   */
  loadBalancerTags?: Record<string, string> | undefined;
}
