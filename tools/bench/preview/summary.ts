import { median } from '../compare';
import { medianRatio } from '../rounds';
import type { Project } from './projects';

/** One preview. */
export interface PreviewSample {
  /** The whole of `pulumi preview`. */
  seconds: number;
  /** From the start of the program, which is the start of its Node, to the end. */
  fromProgramSeconds: number;
}

export interface PreviewRow {
  seconds: number[];
  fromProgramSeconds: number[];
}

export interface PreviewResult {
  /** By project, one number for each round. */
  rows: Record<Project, PreviewRow>;
  /**
   * Medians over the rounds of `staging` against `empty`, from the start of the program, less in each round what the
   * two providers alone took.
   */
  beyondProviders: { stagingSeconds: number; emptySeconds: number; ratio: number };
  /** The same of the whole of `pulumi preview`. */
  whole: { stagingSeconds: number; emptySeconds: number; ratio: number };
  /** Medians of `staging` against `providers`, which has the start of the providers in it, of the whole. */
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
  // Two programs that take the same may come out a little the other way round.
  const start = providers.map((seconds, round) => Math.max(0, seconds - (empty[round] ?? NaN)));
  const rest = staging.map((seconds, round) => seconds - (start[round] ?? NaN));
  return { stagingSeconds: median(rest), emptySeconds: median(empty), ratio: medianRatio(rest, empty) };
}
