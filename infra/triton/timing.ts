import type { TritonSettings } from './settings';

/** How often the startup probe asks. */
export const STARTUP_PERIOD_SECONDS = 10;
/** After --exit-timeout-secs Triton takes its models down. */
const TAKE_DOWN_SECONDS = 15;
/** A GPU machine that has to be started first, until pods are bound to it. */
const NODE_SECONDS = 300;
/** The image of about 9 GB, on a machine that does not have it yet. */
const IMAGE_PULL_SECONDS = 300;
/** How long a pod has to be ready to count as such. */
export const MIN_READY_SECONDS = 10;

/** From the start of the container to its HTTP port. */
export function startupSeconds({ startup }: Pick<TritonSettings, 'startup'>): number {
  return startup.downloadSeconds + startup.loadSeconds + startup.warmUpSeconds;
}

/** From "end" to "killed": serving on, then open requests, then the models. */
export function graceSeconds({ shutdown }: Pick<TritonSettings, 'shutdown'>): number {
  return shutdown.drainSeconds + shutdown.exitTimeoutSeconds + TAKE_DOWN_SECONDS;
}

/** From "wanted" to "ready" of one pod, with a machine that has to be started for it. */
export function podReadySeconds(settings: Pick<TritonSettings, 'startup'>): number {
  return NODE_SECONDS + IMAGE_PULL_SECONDS + startupSeconds(settings) + MIN_READY_SECONDS;
}

type OfRollout = Pick<TritonSettings, 'startup' | 'shutdown' | 'rollout' | 'replicas' | 'autoscaling'>;

/** For every pod to be replaced, as many at a time as the rollout allows. */
function rolloutSeconds(settings: OfRollout): number {
  const pods = settings.autoscaling?.maxReplicas ?? settings.replicas;
  const atOnce = settings.rollout.strategy === 'surge' ? 1 : settings.rollout.maxUnavailable;
  const steps = Math.max(1, Math.ceil(pods / atOnce));
  return steps * (podReadySeconds(settings) + graceSeconds(settings));
}

/** How long Pulumi waits for what needs pods that are ready; its default is over before a first pod is. */
export function rolloutTimeouts(settings: OfRollout): { create: string; update: string } {
  const timeout = `${rolloutSeconds(settings)}s`;
  return { create: timeout, update: timeout };
}
