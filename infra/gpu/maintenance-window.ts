import type { GpuNodePoolSettings } from '../settings/types';

/** Days as Karpenter's schedules name them, in their order. */
export const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'] as const;

const WEEK_HOURS = 7 * 24;

/** When nodes may be replaced for updates. Times are in UTC, the only time zone of Karpenter's schedules. */
export type MaintenanceWindow = NonNullable<GpuNodePoolSettings['maintenanceWindow']>;

/** A budget of a karpenter.sh/v1 NodePool. It applies from each time of its schedule on, for its duration. */
export interface DisruptionBudget {
  nodes: string;
  schedule?: string;
  duration?: string;
  reasons?: string[];
}

/**
 * Budgets that permit no replacement between the windows. Empty nodes may be deleted at any time. An expired node does not
 * wait for a window (https://karpenter.sh/docs/concepts/disruption, read 2026-11-27).
 * @param nodes how many nodes may be replaced at the same time within a window
 */
export function disruptionBudgets(nodes: string, window: MaintenanceWindow | undefined): DisruptionBudget[] {
  if (window === undefined) return [{ nodes }];
  const { days, startHour, hours } = window;
  const pause = (end: number, day: string, length: number): DisruptionBudget => ({
    nodes: '0',
    schedule: `0 ${end % 24} * * ${day}`,
    duration: `${length}h`,
    reasons: ['Drifted', 'Underutilized'],
  });
  if (days.length === 0) return [{ nodes }, pause(startHour + hours, '*', 24 - hours)];
  const starts = DAYS.flatMap((day, i) => (days.includes(day) ? [i * 24 + startHour] : []));
  return [
    { nodes },
    ...starts.map((start, i) => {
      const end = start + hours;
      const next = starts[i + 1] ?? (starts[0] as number) + WEEK_HOURS;
      return pause(end, String(Math.floor(end / 24) % 7), next - end);
    }),
  ];
}
