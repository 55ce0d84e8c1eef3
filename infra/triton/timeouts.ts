import type { ResolvedTritonArgs } from './settings';

/** Interval of the startup probe. */
export const STARTUP_PERIOD_SECONDS = 10;
/** Time in which Triton unloads its models after --exit-timeout-secs. */
const TAKE_DOWN_SECONDS = 15;
/** Time until a new GPU node has started and pods are bound to it. */
const NODE_SECONDS = 300;
/** Time to pull the image of about 9 GB onto a new node. */
const IMAGE_PULL_SECONDS = 300;
/** How long a pod must be ready before it counts as available. */
export const MIN_READY_SECONDS = 10;

/** Time from the start of the container until its HTTP port opens. */
export function startupSeconds({ startup }: Pick<ResolvedTritonArgs, 'startup'>): number {
  return startup.downloadSeconds + startup.loadSeconds + startup.warmUpSeconds;
}

/** Time from the stop signal until the pod is killed: draining, then open requests, then unloading models. */
export function graceSeconds({ shutdown }: Pick<ResolvedTritonArgs, 'shutdown'>): number {
  return shutdown.drainSeconds + shutdown.exitTimeoutSeconds + TAKE_DOWN_SECONDS;
}

/** Time from the creation of a pod until it is available, including the start of a node. */
export function podReadySeconds(settings: Pick<ResolvedTritonArgs, 'startup'>): number {
  return NODE_SECONDS + IMAGE_PULL_SECONDS + startupSeconds(settings) + MIN_READY_SECONDS;
}

type OfRollout = Pick<ResolvedTritonArgs, 'startup' | 'shutdown' | 'rollout' | 'replicas' | 'autoscaling'>;

/** Time to replace all pods, as many at once as the rollout allows. */
function rolloutSeconds(settings: OfRollout): number {
  const pods = settings.autoscaling?.maxReplicas ?? settings.replicas;
  const atOnce = settings.rollout.strategy === 'surge' ? 1 : settings.rollout.maxUnavailable;
  const steps = Math.max(1, Math.ceil(pods / atOnce));
  return steps * (podReadySeconds(settings) + graceSeconds(settings));
}

/** Time in which a node reports that its pods ended, and load balancers are deleted. */
const CLEAN_UP_SECONDS = 600;

/**
 * Pulumi's timeouts for resources that need ready pods, and for the deletion of those that wait until the pods ended.
 * Its default of 10 minutes ends before the first pod is ready, and while pods drain.
 */
export function rolloutTimeouts(settings: OfRollout): { create: string; update: string; delete: string } {
  const timeout = `${rolloutSeconds(settings)}s`;
  return { create: timeout, update: timeout, delete: `${graceSeconds(settings) + CLEAN_UP_SECONDS}s` };
}
