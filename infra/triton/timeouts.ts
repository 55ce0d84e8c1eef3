import type { ServerSettings } from './settings';

/** Interval of the startup probe. Triton starts within seconds, and until the probe succeeds, the pod is not Ready. */
export const STARTUP_PERIOD_SECONDS = 2;
/** Longest time from the start of Triton without models until it answers: it waits for the agent's key and finds the GPUs. */
export const SERVER_START_SECONDS = 120;
/** Time in which Triton unloads its models after --exit-timeout-secs. */
const TAKE_DOWN_SECONDS = 15;
/** Time until a new GPU node has started and pods are bound to it. */
const NODE_SECONDS = 300;
/** Time to pull the image of about 9 GB onto a new node. */
const IMAGE_PULL_SECONDS = 300;
/** Time to pull the agent's image of about 80 MB. */
const AGENT_IMAGE_PULL_SECONDS = 30;
/** How long a pod must be ready before it counts as available. */
export const MIN_READY_SECONDS = 10;

/** How long open requests may take after a pod was drained. */
export const EXIT_TIMEOUT_SECONDS = 30;

type OfStart = Pick<ServerSettings, 'startSeconds'>;

/** Time to load all models, with their warm-up. The other half of startSeconds is for downloads. */
export const loadSeconds = ({ startSeconds }: OfStart): number => Math.ceil(startSeconds / 2);

/** A pod is not Ready any more after so many failed probes. */
export const READINESS = { periodSeconds: 5, failures: 3 };
/** Publishers wait for some minutes until a pod has left the Service (BESIDE_MS of src/publish). */
const MOST_LEAVE_SECONDS = 180;

/** Time until no client reaches a pod whose agent takes it out of the Service. */
export const leaveSeconds = ({ drainSeconds }: Pick<ServerSettings, 'drainSeconds'>): number =>
  Math.min(READINESS.periodSeconds * READINESS.failures + drainSeconds, MOST_LEAVE_SECONDS);

/** Time from the stop signal until the pod is killed: draining, then open requests, then unloading models. */
export function graceSeconds({ drainSeconds }: Pick<ServerSettings, 'drainSeconds'>): number {
  return drainSeconds + EXIT_TIMEOUT_SECONDS + TAKE_DOWN_SECONDS;
}

/** Time from the creation of a pod until it is available, including the start of a node. */
export function podReadySeconds(settings: OfStart): number {
  return NODE_SECONDS + servingSeconds(settings) + MIN_READY_SECONDS;
}

/** Time from the placement of a pod until it serves. An agent downloads while the kubelet pulls Triton's image. */
function servingSeconds(settings: OfStart): number {
  const untilTritonAnswers = IMAGE_PULL_SECONDS + SERVER_START_SECONDS;
  const loading = loadSeconds(settings);
  return AGENT_IMAGE_PULL_SECONDS + Math.max(untilTritonAnswers, settings.startSeconds - loading) + loading;
}

type OfRollout = OfStart & Pick<ServerSettings, 'drainSeconds' | 'rollout' | 'replicas' | 'autoscaling'>;

/** Time to replace all pods, some of them at once. */
function replacementSeconds(settings: OfRollout, atOnce: number): number {
  const pods = settings.autoscaling?.maxReplicas ?? settings.replicas;
  return Math.max(1, Math.ceil(pods / atOnce)) * (podReadySeconds(settings) + graceSeconds(settings));
}

/** Pods that the disruption budget allows to evict at once. At least one, because nodes could not be drained otherwise. */
export const getEvictable = ({ rollout }: Pick<ServerSettings, 'rollout'>): number =>
  Math.max(1, rollout.maxUnavailable);

/** Time in which all nodes drain, if each evicts as many pods at once as the disruption budget of the replicas allows. */
export const allDrainSeconds = (settings: OfRollout): number => replacementSeconds(settings, getEvictable(settings));

/** Time in which a node reports that its pods ended, and load balancers are deleted. */
const CLEAN_UP_SECONDS = 600;

/**
 * Pulumi's timeouts for resources that need ready pods, and for the deletion of those that wait until the pods ended.
 * Its default of 10 minutes ends before the first pod is ready, and while pods drain.
 */
export function rolloutTimeouts(settings: OfRollout): { create: string; update: string; delete: string } {
  const { maxSurge, maxUnavailable } = settings.rollout;
  const timeout = `${replacementSeconds(settings, maxSurge + maxUnavailable)}s`;
  return { create: timeout, update: timeout, delete: `${graceSeconds(settings) + CLEAN_UP_SECONDS}s` };
}
