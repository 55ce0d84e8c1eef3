import { median } from '../compare';
import { medianRatio } from '../rounds';
import type { Project } from './projects';

/** Times of one preview. */
export interface PreviewSample {
  /** Duration of `pulumi preview`. */
  seconds: number;
  /** Time from the start of the program's Node process to the end. */
  fromProgramSeconds: number;
}

export interface PreviewRow {
  seconds: number[];
  fromProgramSeconds: number[];
}

export interface PreviewResult {
  /** One value for each round, by project. */
  rows: Record<Project, PreviewRow>;
  /**
   * Medians of `staging` against `empty`, measured from the start of the program. In each round the time of the two
   * providers is subtracted.
   */
  beyondProviders: { stagingSeconds: number; emptySeconds: number; ratio: number };
  /** The same for the complete duration of `pulumi preview`. */
  whole: { stagingSeconds: number; emptySeconds: number; ratio: number };
  /** Medians of the complete durations of `staging` against `providers`, which includes the start of the providers. */
  overProviders: { stagingSeconds: number; providersSeconds: number; ratio: number };
}

/** @param samples by project, in the order of the rounds */
export function summarize(samples: ReadonlyMap<string, readonly PreviewSample[]>): PreviewResult {
  const row = (project: Project): PreviewRow => {
    const own = samples.get(project) ?? [];
    return {
      seconds: own.map(({ seconds }) => seconds),
      fromProgramSeconds: own.map(({ fromProgramSeconds }) => fromProgramSeconds),
    };
  };
  const rows = { empty: row('empty'), providers: row('providers'), staging: row('staging') };
  return {
    rows,
    beyondProviders: beyond(rows, 'fromProgramSeconds'),
    whole: beyond(rows, 'seconds'),
    overProviders: {
      stagingSeconds: median(rows.staging.seconds),
      providersSeconds: median(rows.providers.seconds),
      ratio: medianRatio(rows.staging.seconds, rows.providers.seconds),
    },
  };
}

function beyond(rows: Record<Project, PreviewRow>, what: keyof PreviewRow): PreviewResult['whole'] {
  const { empty, providers, staging } = {
    empty: rows.empty[what],
    providers: rows.providers[what],
    staging: rows.staging[what],
  };
  // If both programs take the same time, noise can make the difference negative.
  const start = providers.map((seconds, round) => Math.max(0, seconds - (empty[round] ?? NaN)));
  const rest = staging.map((seconds, round) => seconds - (start[round] ?? NaN));
  return { stagingSeconds: median(rest), emptySeconds: median(empty), ratio: medianRatio(rest, empty) };
}
