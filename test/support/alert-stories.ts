import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from './describe-unless';
import { RuleTester } from './rule-tester';
import { ofModel, POD, type Series, type settingsOf } from './series';

const BUILD_MS = 30 * 60_000;

export interface Story {
  story: string;
  alert: string;
  input: Series[];
  /** Minutes at which a case fires. */
  fires?: number[];
  /** Minutes at which none fires. */
  silent?: number[];
}

export const failures = (count: string, reason: string, model = 'bert', version = '1'): Series => ({
  series: `nv_inference_request_failure{namespace="triton",job="triton",pod="${POD}",model="${model}",version="${version}",reason="${reason}"}`,
  values: count,
});

export const successes = (count: string, model = 'bert', version = '1'): Series =>
  ofModel('nv_inference_request_success', POD, count, model, version);

/** Evaluates the rules of a server on each story, with one value of each series per `interval`. */
export function testStories(
  title: string,
  settings: ReturnType<typeof settingsOf>,
  interval: string,
  stories: readonly Story[],
): void {
  describeUnless(whyNoGo(['promtool']), title, () => {
    // Without the other alerts, promtool evaluates hours in seconds.
    const tester = new RuleTester(settings, interval, (name) => stories.some(({ alert }) => alert === name));
    beforeAll(() => tester.install(), BUILD_MS);
    afterAll(() => tester.clean());

    test.each(stories)('$alert: $story', async ({ alert, input, fires = [], silent = [] }) => {
      const firing = `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0`;
      const at = (minute: number, samples: object[]): object => ({
        expr: firing,
        eval_time: `${minute * 60}s`,
        exp_samples: samples,
      });
      const expected = [
        ...fires.map((minute) => at(minute, [{ labels: '{}', value: 1 }])),
        ...silent.map((minute) => at(minute, [])),
      ];
      expect(await tester.check({ input_series: input, promql_expr_test: expected })).toBe('');
    });
  });
}
