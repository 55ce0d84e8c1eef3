import type { Alert } from './alert';
import { FAILURE_KINDS, failureCount, failureShare, FEWEST_FAILURES } from './failures';
import { round, slowRequestRate, SUMMARY_SECONDS } from './latency';
import { series, sumRate, type SeriesOf } from './promql';
import type { ServerSettings } from '../settings';

/**
 * The multi-window alerts of Google's SRE workbook (https://sre.google/workbook/alerting-on-slos/): an error budget burns
 * `factor` times as fast as the objective permits, both in a long window and in a short one, which ends the alert soon after
 * the cause is gone. At 14.4 an hour takes 2% of the budget of 30 days, at 6 six hours take 5%.
 */
const BURNS = [
  { pace: 'Fast', severity: 'critical', factor: 14.4, long: '1h', short: '5m' },
  { pace: 'Slow', severity: 'warning', factor: 6, long: '6h', short: '30m' },
] as const;

type Objectives = NonNullable<ServerSettings['monitoring']>['slo'];

/** Share of the requests that may be slower than the 99th percentile of the objective. */
const SLOW_SHARE = 0.01;

/** Interval of the recorded rates, so that their sum is a number of requests. */
export const RECORD_SECONDS = 30;

const RATES = { all: 'triton_requests_per_second', slow: 'triton_slow_requests_per_second' } as const;

/** Rates over hours of which the latency alerts are made: metric -> PromQL. */
export function sloRecords(of: SeriesOf, { p99Milliseconds }: Objectives = {}): Record<string, string> {
  if (p99Milliseconds === undefined) return {};
  const by = ['namespace', 'model', 'version'];
  return {
    [RATES.all]: sumRate('nv_inference_request_success', of, by, { window: `${SUMMARY_SECONDS}s` }),
    [RATES.slow]: slowRequestRate(of, p99Milliseconds, by),
  };
}

/** Alerts about objectives, per model: a model that misses its objective does not hide behind one with more requests. */
export function sloAlerts(of: SeriesOf, { p99Milliseconds, errorRate }: Objectives = {}): Alert[] {
  return BURNS.flatMap(({ pace, severity, factor, long, short }) => {
    const windows = [long, short];
    const errors = (rate: number): Alert => ({
      name: `TritonErrorBudgetBurn${pace}`,
      severity,
      forSeconds: 0,
      expression: FAILURE_KINDS.map((kind) => {
        const shares = windows.map((window) => `${failureShare(of, kind, { window })} > ${round(factor * rate)}`);
        return `(${shares.join(' and ')} and ${failureCount(of, kind, long)} > ${FEWEST_FAILURES})`;
      }).join(' or '),
      summary:
        `Over ${long}, {{ $value | humanizePercentage }} of the requests to model {{ $labels.model }}` +
        `{{ with $labels.version }} version {{ . }}{{ end }} failed; the objective is ${round(100 * rate)}%.`,
    });
    const latency = (milliseconds: number): Alert => {
      const sum = (metric: string, window: string): string =>
        `sum by (model, version) (sum_over_time(${metric}${series(of)}[${window}]))`;
      const shares = windows.map(
        (window) => `${sum(RATES.slow, window)} / ${sum(RATES.all, window)} > ${round(factor * SLOW_SHARE)}`,
      );
      return {
        name: `TritonLatencyBudgetBurn${pace}`,
        severity,
        forSeconds: 0,
        expression: `${shares.join(' and ')} and ${RECORD_SECONDS} * ${sum(RATES.slow, long)} > ${FEWEST_FAILURES}`,
        summary:
          `Over ${long}, at least {{ $value | humanizePercentage }} of the requests to model {{ $labels.model }} version ` +
          `{{ $labels.version }} took more than ${milliseconds} ms; the objective is ${100 * SLOW_SHARE}%.`,
      };
    };
    return [
      ...(errorRate === undefined ? [] : [errors(errorRate)]),
      ...(p99Milliseconds === undefined ? [] : [latency(p99Milliseconds)]),
    ];
  });
}
