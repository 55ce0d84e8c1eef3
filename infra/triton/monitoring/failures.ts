import { series, sumRate, type SeriesOf } from './promql';

/** Failures that count against a model, not those of clients that cancel. */
export interface FailureKind {
  by: readonly string[];
  reasons: readonly string[];
  /** How many requests each failure stands for. */
  weight: number;
}

/**
 * Failures of models by version, because a new version may have few requests. Ensembles by model, because the version of their
 * successes is always 1; their failures have the reason OTHER, and Triton counts each twice.
 */
export const FAILURE_KINDS: readonly FailureKind[] = [
  { by: ['model', 'version'], reasons: ['BACKEND', 'REJECTED'], weight: 1 },
  { by: ['model'], reasons: ['OTHER'], weight: 0.5 },
];

/** A share of failures counts if there were five of them or more; Prometheus extrapolates 4 to slightly more. */
export const FEWEST_FAILURES = 4.5;

const ofReasons = (reasons: readonly string[]): string => `reason=~"${reasons.join('|')}"`;

/**
 * Share of the requests of each model that failed, from 0 to 1; no value without requests.
 * @param above only with more requests per second than this
 */
export function failureShare(
  of: SeriesOf,
  { by, reasons, weight }: FailureKind,
  { window, above = 0 }: { window?: string; above?: number } = {},
): string {
  const matchers = [ofReasons(reasons)];
  const failed = `${weight} * ${sumRate('nv_inference_request_failure', of, by, { matchers, window })}`;
  return `${failed} / (${failed} + ${sumRate('nv_inference_request_success', of, by, { window })} > ${above})`;
}

export function failureCount(of: SeriesOf, { by, reasons, weight }: FailureKind, window: string): string {
  const failures = `nv_inference_request_failure${series(of, ofReasons(reasons))}`;
  return `${weight} * sum by (${by.join(', ')}) (increase(${failures}[${window}]))`;
}
