import { guardsOf, type Value } from './model-checker';

type Command = 'publish' | 'rollback' | 'prune';

/** What happens in a run of the model. */
export interface Scenario {
  /** The commands, by publisher. */
  commands: Record<string, Command>;
  /** Version number that each publisher uploads under. Releases r0 and r1 have 0 and 1. */
  numbers?: Record<string, number>;
  /** What each publisher uploads. Releases r0 and r1 have 0 and 1, and a refused release has left 9. */
  bytes?: Record<string, number>;
  models?: string[];
  /** Models that each publisher changes. Default: all. */
  changes?: Record<string, string[]>;
  pods?: string[];
  /** Pods that are up at the start. Default: all. */
  up?: string[];
  /** Pairs of a release and a pod on which it does not load. */
  bad?: [string, string][];
  restarts?: number;
  stops?: number;
  outages?: number;
  outagesEnd?: boolean;
  failures?: number;
  crash?: boolean;
  giveUp?: boolean;
  lateUploads?: boolean;
  /** Publishers are told which pods are ready. Default: true. */
  knowsReady?: boolean;
  /** Agents get old heads, and loads end late. */
  slowPods?: boolean;
  /** How often a request to S3 may be applied. */
  copies?: number;
  /** Guards that are removed. */
  without?: string[];
}

export const GUARDS = guardsOf('Publish');

/** The constants of Publish.tla for a scenario. */
export function constantsOf(scenario: Scenario): Record<string, Value> {
  const publishers = Object.keys(scenario.commands);
  const models = scenario.models ?? ['m'];
  const pods = scenario.pods ?? ['a'];
  const each = <T extends Value>(value: (publisher: string, index: number) => T): Record<string, T> =>
    Object.fromEntries(publishers.map((name, index) => [name, value(name, index)]));
  return {
    Publishers: new Set(publishers),
    Pods: new Set(pods),
    Models: new Set(models),
    Command: scenario.commands,
    Changes: each((name) => new Set(scenario.changes?.[name] ?? models)),
    Number: scenario.numbers ?? each((_, index) => index + 2),
    Bytes: scenario.bytes ?? each((_, index) => index + 2),
    Rank: each((_, index) => index),
    BadOn: new Set(scenario.bad ?? []),
    StartUp: new Set(scenario.up ?? pods),
    Guards: new Set(GUARDS.filter((guard) => !scenario.without?.includes(guard))),
    MaxRestarts: scenario.restarts ?? 0,
    MaxStops: scenario.stops ?? 0,
    MaxOutages: scenario.outages ?? 0,
    MaxFailures: scenario.failures ?? 0,
    OutagesEnd: scenario.outagesEnd ?? true,
    CanCrash: scenario.crash ?? false,
    CanGiveUp: scenario.giveUp ?? true,
    Copies: scenario.copies ?? 1,
    KnowsReady: scenario.knowsReady ?? true,
    LateUploads: scenario.lateUploads ?? false,
    SlowPods: scenario.slowPods ?? false,
  };
}
