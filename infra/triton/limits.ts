import type { TritonOptions, TritonServerArgs } from './args';

/** The range of a whole number, in the unit of the setting. */
export interface Limits {
  minimum: number;
  maximum: number;
}

/** Limits for some of the numbers in T. */
type LimitsOf<T> = {
  readonly [K in keyof T]?: NonNullable<T[K]> extends number ? Limits : LimitsOf<NonNullable<T[K]>>;
};

const limits = (minimum: number, maximum: number): Limits => ({ minimum, maximum });
const DAY_SECONDS = 86_400;
/** The largest disk of a node, which exceeds any memory. */
const MOST_GIB = 16_384;

/** Limits of whole numbers, in stack files and in TritonServerArgs. */
export const LIMITS = {
  replicas: limits(0, 1000),
  gpusPerPod: limits(0, 16),
  resources: {
    memoryGiB: limits(1, MOST_GIB),
    sharedMemoryGiB: limits(1, MOST_GIB),
    scratchGiB: limits(1, MOST_GIB),
  },
  startup: {
    downloadSeconds: limits(0, DAY_SECONDS),
    loadSeconds: limits(0, DAY_SECONDS),
    warmUpSeconds: limits(0, DAY_SECONDS),
  },
  shutdown: { drainSeconds: limits(1, 3600), exitTimeoutSeconds: limits(0, 3600) },
  rollout: { maxUnavailable: limits(1, 1000) },
  autoscaling: {
    minReplicas: limits(1, 1000),
    maxReplicas: limits(1, 1000),
    queueMilliseconds: limits(1, 600_000),
    instancesPerReplica: limits(1, 1000),
    // Kubernetes has the same limit.
    scaleDownAfterSeconds: limits(0, 3600),
  },
  monitoring: {
    // A scrape may take 10 s.
    scrapeSeconds: limits(10, 300),
  },
  slo: { p99Milliseconds: limits(1, 600_000) },
} as const satisfies LimitsOf<TritonOptions>;

/** Limits of slo.errorRate. A page needs 14.4 times this share of the requests, so it must be less than 1/14.4. */
export const ERROR_RATE_LIMITS = limits(0.00001, 0.05);

/** Limits of tracing.sampleRate. */
export const SAMPLE_RATE_LIMITS = limits(0, 1);

/** Requests of the container of an agent. */
export const AGENT_REQUESTS = { cpu: 0.25, memoryMiB: 256 } as const;

/** Disk for the agent's manifests and notes, and for the directories of files. */
const RESERVED_BYTES = 64 * 2 ** 20;

/** Bytes that models may take on the disk of a pod. */
export const modelDiskBytes = (scratchGiB: number): number => scratchGiB * 2 ** 30 - RESERVED_BYTES;

/**
 * Default of shutdown.drainSeconds: how long clients may still reach a pod that stops. A network load balancer sends new
 * connections for about two minutes after the deregistration was requested
 * (https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2366, read 2026-11-22), an application load
 * balancer for some seconds.
 */
export const DRAIN_SECONDS = { cluster: 15, ingress: 30, 'internal-load-balancer': 120 } as const satisfies Record<
  NonNullable<TritonOptions['exposure']>['kind'],
  number
>;

/** Prefix of the annotations of AWS's ingress controllers. */
export const ALB = 'alb.ingress.kubernetes.io';

/** Annotations with which these controllers authenticate clients. */
export const ALB_AUTHENTICATION = ['mutual-authentication', 'jwt-validation', 'auth-type'].map(
  (name) => `${ALB}/${name}`,
);

/** Limits of the number of a TCP port. */
export const PORT_LIMITS = limits(1, 65_535);

/** Default values. args.ts documents the same values. */
export const DEFAULTS = {
  replicas: 2,
  gpusPerPod: 1,
  monitoringNamespace: 'monitoring',
  /** Without cpuLimit, which is twice cpu. */
  resources: { cpu: 2, memoryGiB: 8, sharedMemoryGiB: 1, scratchGiB: 20 },
  startup: { downloadSeconds: 300, loadSeconds: 180, warmUpSeconds: 120 },
  /** Without drainSeconds, which depends on the exposure. */
  shutdown: { exitTimeoutSeconds: 30 },
  rollout: { strategy: 'in-place', maxUnavailable: 1 },
  autoscaling: {
    /** Also the basis of the queue alert without autoscaling. */
    queueMilliseconds: 50,
    instancesPerReplica: 1,
    scaleDownAfterSeconds: 600,
  },
  tracing: { sampleRate: 0 },
  /** Also used without monitoring, for other scrapers. */
  scrapeSeconds: 15,
  /** A path, because this package does not know where its repository is hosted. */
  runbookUrl: 'docs/runbook.md',
  ingress: { className: 'alb', scheme: 'internal' },
  /** The class of EKS Auto Mode. */
  loadBalancerClass: 'eks.amazonaws.com/nlb',
} as const;

/** Default destination of the pods. network-policy.ts excludes the link-local addresses of the node. */
export const ANYWHERE = '0.0.0.0/0';

/** The forms of arguments that have several. */
export const KINDS = {
  credentials: ['role', 'static-keys'],
  exposure: ['cluster', 'internal-load-balancer', 'ingress'],
  autoscaling: ['keda', 'custom-metrics'],
} as const satisfies {
  [K in keyof TritonServerArgs]?: NonNullable<TritonServerArgs[K]> extends { kind: infer T } ? readonly T[] : never;
};
