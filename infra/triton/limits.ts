import type { TritonOptions } from './args';

/** The smallest and the largest that a whole number may be, in its own unit. */
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
/** The largest disk, and more than any memory, that a node has. */
const MOST_GIB = 16_384;

/** What whole numbers may be, in a stack file as in TritonServerArgs. */
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
    // Kubernetes' own limit.
    scaleDownAfterSeconds: limits(0, 3600),
  },
  // Reading takes up to 10 s.
  monitoring: { scrapeSeconds: limits(10, 300) },
} as const satisfies LimitsOf<TritonOptions>;
