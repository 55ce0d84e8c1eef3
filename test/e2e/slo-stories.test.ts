import { failures, successes, testStories, type Story } from '../support/alert-stories';
import { labels, ofModel, OTHER, POD, type Series, settingsOf } from '../support/series';

/** Durations in the quantiles that Triton reports, in microseconds: 10 ms below the quantile `from`. */
const durations = (pod: string, values: string, from = 0): Series[] =>
  ['0.5', '0.85', '0.93', '0.95', '0.99'].map((quantile) => ({
    series: `nv_inference_request_summary_us${labels(pod, `,model="bert",version="1",quantile="${quantile}"`)}`,
    values: Number(quantile) < from ? '10000x500' : values,
  }));

/** The values that promtool makes of a text: `0+2x2 7` is 0, 2, 4, 7. */
const valuesOf = (text: string): number[] =>
  text.split(' ').flatMap((part) => {
    const [, first, step = '0', times = '0'] = /^(NaN|\d+)(?:\+(\d+))?(?:x(\d+))?$/.exec(part) ?? [];
    if (first === undefined) throw new Error(`unknown values: ${part}`);
    return Array.from({ length: Number(times) + 1 }, (_, index) => Number(first) + index * Number(step));
  });

/** A series with a value for each minute, with one for each half: counters grow steadily, and durations stay. */
function everyHalfMinute({ series, values }: Series): Series {
  const minutes = valuesOf(values);
  const halves = minutes.flatMap((value, index) => {
    const next = minutes[index + 1];
    return [value, series.startsWith('nv_inference_request_summary_us') ? value : (value + (next ?? value)) / 2];
  });
  return { series, values: halves.join(' ') };
}

/** Every five minutes 600 requests of 20 ms in one minute, and in the next minute one of 150 ms. */
const minutes = Array.from({ length: 420 }, (_, minute) => minute);
const burstsWithOneSlow = [
  successes(
    minutes.map((minute) => 601 * Math.floor(minute / 5) + ([0, 600, 601, 601, 601][minute % 5] ?? 0)).join(' '),
  ),
  ...durations(POD, minutes.map((minute) => ['NaN', '20000', '150000', 'NaN', 'NaN'][minute % 5]).join(' ')),
];

/** 1000 requests per minute, and those of minute 400 fail. */
const failedMinute = [successes('0+1000x399 399000 399000+1000x200'), failures('0x399 0 1000x200', 'BACKEND')];

/** Objectives: 99 of 100 requests within 100 ms, and one failure in 1000 requests. The series have one value per minute. */
const STORIES: Story[] = [
  {
    story: 'from minute 60 to 120, 3% of the requests fail',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0+970x500'), failures('0x60 30+30x59 1800x300', 'BACKEND')],
    silent: [62, 80, 126, 180],
    fires: [95, 120],
  },
  {
    story: 'every request of one minute fails',
    alert: 'TritonErrorBudgetBurnSlow',
    input: failedMinute,
    silent: [399, 400, 401, 402, 405, 420, 450, 500],
  },
  {
    story: 'from minute 60 on, 1% of the requests fail',
    alert: 'TritonErrorBudgetBurnSlow',
    input: [successes('0+990x500'), failures('0x60 10+10x500', 'BACKEND')],
    silent: [60, 120],
    fires: [290, 420],
  },
  {
    story: 'from minute 60 on, 1% of the requests fail',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0+990x500'), failures('0x60 10+10x500', 'BACKEND')],
    silent: [120, 290, 420],
  },
  {
    story: 'four requests to a quiet model fail',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0x100'), failures('0x10 1 2 2 3 4x100', 'BACKEND')],
    silent: [10, 12, 14, 15, 16, 18, 30],
  },
  {
    story: 'six requests to a quiet model fail',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0x100'), failures('0x10 2 4 6x100', 'BACKEND')],
    silent: [10],
    fires: [14],
  },
  {
    story: 'clients cancel 5% of their requests',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0+950x100'), failures('0+50x100', 'CANCELED'), failures('0x100', 'BACKEND')],
    silent: [10, 90],
  },
  {
    story: '1% of the requests to an ensemble fail, and Triton counts each twice',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0+990x100', 'whole'), failures('0+20x100', 'OTHER', 'whole')],
    silent: [10, 90],
  },
  {
    story: '2% of the requests to an ensemble fail',
    alert: 'TritonErrorBudgetBurnFast',
    input: [successes('0+980x100', 'whole'), failures('0+40x100', 'OTHER', 'whole')],
    fires: [10, 90],
  },
  {
    story: 'from minute 60 to 120, half of the requests take 150 ms',
    alert: 'TritonLatencyBudgetBurnFast',
    input: [successes('0+1000x500'), ...durations(POD, '10000x59 150000x59 10000x300')],
    silent: [59, 70, 127, 180],
    fires: [80, 119],
  },
  {
    story: 'every request of five minutes is slow',
    alert: 'TritonLatencyBudgetBurnFast',
    input: [successes('0+1000x500'), ...durations(POD, '10000x59 150000x4 10000x300')],
    silent: [60, 62, 65, 66, 70, 90],
  },
  {
    story: 'a replica with a tenth of the requests is slow',
    alert: 'TritonLatencyBudgetBurnFast',
    input: [
      successes('0+1000x500'),
      ofModel('nv_inference_request_success', OTHER, '0+9000x500'),
      ...durations(POD, '150000x500'),
      ...durations(OTHER, '10000x500'),
    ],
    silent: [60, 120, 400],
  },
  {
    story: '8% of the requests are slow',
    alert: 'TritonLatencyBudgetBurnFast',
    input: [successes('0+1000x500'), ...durations(POD, '150000x500', 0.93)],
    silent: [60, 120, 400],
  },
  {
    story: '8% of the requests are slow',
    alert: 'TritonLatencyBudgetBurnSlow',
    input: [successes('0+1000x500'), ...durations(POD, '150000x500', 0.93)],
    fires: [60, 120, 400],
  },
  {
    story: '16% of the requests are slow',
    alert: 'TritonLatencyBudgetBurnFast',
    input: [successes('0+1000x500'), ...durations(POD, '150000x500', 0.85)],
    fires: [60, 120, 400],
  },
  {
    story: '1% of the requests are slow, as the objective permits',
    alert: 'TritonLatencyBudgetBurnSlow',
    input: [successes('0+1000x500'), ...durations(POD, '150000x500', 0.99)],
    silent: [60, 120, 400],
  },
  {
    story: 'one of 601 requests is slow, a minute after the others',
    alert: 'TritonLatencyBudgetBurnSlow',
    input: burstsWithOneSlow,
    silent: [60, 120, 240, 362, 400],
  },
  {
    story: 'the first three requests to a new version are slow, and Triton reports no durations before and after',
    alert: 'TritonLatencyBudgetBurnFast',
    input: [successes('0x4 1 2 3x100'), ...durations(POD, `${'NaN '.repeat(5)}900000x2 ${'NaN '.repeat(20).trim()}`)],
    silent: [4, 5, 6, 7, 8, 10],
  },
];

testStories(
  'stories of objectives',
  settingsOf(),
  '30s',
  STORIES.map((story) => ({ ...story, input: story.input.map(everyHalfMinute) })),
);
