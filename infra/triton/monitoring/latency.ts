import { series, type SeriesOf } from './promql';

/**
 * The time of which Triton's summaries are. Rates that are multiplied with them cover the same time: otherwise a slow request
 * after a burst would count as many as the burst had.
 */
export const SUMMARY_SECONDS = 60;

/**
 * Quantiles that Triton computes of the requests of the last minute, with the permitted error of the rank. A p99 above the
 * objective says that more than 1% of the requests were slow, a p85 that more than 15% were. 7% and 15% are slightly more than
 * the shares at which alerts fire (slo.ts).
 */
const QUANTILES = [
  { quantile: 0.5, error: 0.01 },
  { quantile: 0.85, error: 0.005 },
  { quantile: 0.93, error: 0.005 },
  { quantile: 0.95, error: 0.001 },
  { quantile: 0.99, error: 0.001 },
] as const;

export const SUMMARY_FLAGS = [
  '--metrics-config=summary_latencies=true',
  `--metrics-config=summary_quantiles=${QUANTILES.map(({ quantile, error }) => `${quantile}:${error}`).join(',')}`,
] as const;

/** Triton computes the same quantiles of the parts of a request, which nothing reads. */
export const UNUSED_SUMMARIES = 'nv_inference_(queue|compute_input|compute_infer|compute_output)_summary_us.*';

type Quantile = (typeof QUANTILES)[number]['quantile'];

const inMicroseconds = (of: SeriesOf, quantile: Quantile): string =>
  `nv_inference_request_summary_us${series(of, `quantile="${quantile}"`)}`;

/**
 * A quantile of the duration of requests in milliseconds, of the replica where it is largest: quantiles of replicas cannot be
 * combined, but that of all requests is never larger than this one.
 */
export const largestQuantile = (of: SeriesOf, quantile: Quantile): string =>
  `max by (model, version) (${inMicroseconds(of, quantile)}) / 1000`;

/**
 * Requests per second that took longer than the objective, at least, for each combination of the labels `by`. Each quantile
 * above the objective gives a lower bound of their share, and each replica counts with its number of requests.
 */
export function slowRequestRate(of: SeriesOf, milliseconds: number, by: readonly string[]): string {
  const bounds = QUANTILES.map(({ quantile }, index) => {
    const next = QUANTILES[index + 1]?.quantile ?? 1;
    return `${round(next - quantile)} * (${inMicroseconds(of, quantile)} > bool ${milliseconds * 1000})`;
  });
  const requests = `rate(nv_inference_request_success${series(of)}[${SUMMARY_SECONDS}s])`;
  return `sum by (${by.join(', ')}) (${requests} * ignoring (quantile) (${bounds.join(' + ignoring (quantile) ')}))`;
}

/** Without the errors of binary fractions. */
export const round = (value: number): number => Number(value.toPrecision(6));
