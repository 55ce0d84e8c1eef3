/** The parts of `spec` of a HorizontalPodAutoscaler that decide how many pods there are. */
export interface ScalingRules {
  stabilizationWindowSeconds: number;
  policies: readonly { type: string; value: number; periodSeconds: number }[];
}

export interface HpaSpec {
  minReplicas: number;
  maxReplicas: number;
  behavior: { scaleUp: ScalingRules; scaleDown: ScalingRules };
}

/** Pods that match the selector of the Deployment and are not being deleted. */
export interface Pods {
  /** Of `spec` and of `status`: here they are the same. */
  current: number;
  /** Names of pods without a node. Those that start on one have no value either, and count alike on the way up. */
  pending: readonly string[];
  running: readonly string[];
}

/** --horizontal-pod-autoscaler-sync-period and --horizontal-pod-autoscaler-tolerance of kube-controller-manager. */
export const SYNC_SECONDS = 15;
const TOLERANCE = 0.1;

const isTolerable = (ratio: number): boolean => Math.abs(1 - ratio) <= TOLERANCE;

/** Type External with AverageValue, as KEDA creates it (GetExternalPerPodMetricReplicas). */
export function externalReplicas(value: number, goal: number, { current }: Pods): number {
  return isTolerable(value / (goal * current)) ? current : Math.ceil(value / goal);
}

/**
 * Type Pods with AverageValue (calcPlainMetricReplicas): a pod without a value counts as 0 on the way up, and as at its goal on
 * the way down; a pending pod counts as 0 on the way up, and not at all on the way down.
 * @returns undefined if no pod has a value, which is an error
 */
export function podsReplicas(values: ReadonlyMap<string, number>, goal: number, pods: Pods): number | undefined {
  const known = pods.running.flatMap((name) => values.get(name) ?? []);
  if (known.length === 0) return undefined;
  const missing = pods.running.length - known.length;
  const sum = known.reduce((total, value) => total + value, 0);
  const ratio = sum / known.length / goal;
  if (missing === 0 && (pods.pending.length === 0 || ratio <= 1))
    return isTolerable(ratio) ? pods.current : Math.ceil(ratio * known.length);
  const counted = known.length + missing + (ratio > 1 ? pods.pending.length : 0);
  const corrected = (ratio < 1 ? sum + missing * goal : sum) / counted / goal;
  const desired = Math.ceil(corrected * counted);
  const turns = ratio < 1 ? corrected > 1 || desired > pods.current : corrected < 1 || desired < pods.current;
  return isTolerable(corrected) || turns ? pods.current : desired;
}

/**
 * The controller of a HorizontalPodAutoscaler, after pkg/controller/podautoscaler/{horizontal,replica_calculator}.go of Kubernetes
 * 1.34 (https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#algorithm-details). Times are in seconds.
 */
export class Hpa {
  private recommendations: { at: number; replicas: number }[] = [];
  private changes: { at: number; by: number }[] = [];

  constructor(private readonly spec: HpaSpec) {}

  /**
   * @param proposals the desired number by each metric; undefined for one that failed
   * @returns the new number of pods
   */
  sync(now: number, current: number, proposals: readonly (number | undefined)[]): number {
    if (this.recommendations.length === 0) this.recommendations.push({ at: now, replicas: current });
    const valid = proposals.filter((proposal) => proposal !== undefined);
    const proposal = Math.max(...valid);
    if (valid.length === 0 || (valid.length < proposals.length && proposal < current)) return current;
    const { minReplicas, maxReplicas, behavior } = this.spec;
    const stable = this.stabilized(now, current, proposal);
    const { up, down } = this.limits(now, current);
    const desired =
      stable > current
        ? Math.min(stable, maxReplicas, up)
        : stable < current
          ? Math.max(stable, minReplicas, down)
          : current;
    if (desired !== current) this.changes.push({ at: now, by: desired - current });
    const longest = Math.max(
      ...[behavior.scaleUp, behavior.scaleDown].flatMap(({ policies }) =>
        policies.map((policy) => policy.periodSeconds),
      ),
    );
    this.changes = this.changes.filter(({ at }) => at > now - longest);
    return desired;
  }

  /** Up to the smallest recommendation of one window, and down to the largest one of the other. */
  private stabilized(now: number, current: number, proposal: number): number {
    const { scaleUp, scaleDown } = this.spec.behavior;
    const within = (seconds: number): number[] => [
      proposal,
      ...this.recommendations.filter(({ at }) => at > now - seconds).map(({ replicas }) => replicas),
    ];
    const least = Math.min(...within(scaleUp.stabilizationWindowSeconds));
    const most = Math.max(...within(scaleDown.stabilizationWindowSeconds));
    this.recommendations.push({ at: now, replicas: proposal });
    const oldest = now - Math.max(scaleUp.stabilizationWindowSeconds, scaleDown.stabilizationWindowSeconds);
    this.recommendations = this.recommendations.filter(({ at }) => at > oldest);
    return Math.min(Math.max(current, least), most);
  }

  /** The policy that allows the largest change counts, from the number of pods at the start of its period. */
  private limits(now: number, current: number): { up: number; down: number } {
    const allowed = ({ policies }: ScalingRules, sign: number): number[] =>
      policies.map(({ type, value, periodSeconds }) => {
        const since = this.changes.filter(({ at }) => at > now - periodSeconds);
        const start = current - since.reduce((total, { by }) => total + by, 0);
        return start + sign * (type === 'Pods' ? value : (start * value) / 100);
      });
    const { scaleUp, scaleDown } = this.spec.behavior;
    return {
      up: Math.max(current, ...allowed(scaleUp, 1).map(Math.ceil)),
      down: Math.min(current, ...allowed(scaleDown, -1).map(Math.trunc)),
    };
  }
}
