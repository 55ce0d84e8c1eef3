import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TritonServerArgs } from '../../infra/triton/args';
import { panels } from '../../infra/triton/dashboard';
import { ruleGroups } from '../../infra/triton/monitoring';
import { scalingQuery } from '../../infra/triton/promql';
import { withDefaults } from '../../infra/triton/settings';
import { CommandError, exec } from '../../src/core/exec';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensurePromtool } from '../../tools/toolchain/promtool';
import { describeUnless } from '../support/describe-unless';
import { Scratch } from '../support/temp-dir';
import { ARGS } from '../support/render';

const BUILD_MS = 30 * 60_000;

const settings = withDefaults('triton', {
  ...ARGS,
  autoscaling: { kind: 'keda', minReplicas: 2, maxReplicas: 8 },
  monitoring: {},
  agent: {},
} satisfies TritonServerArgs);
const OF = { namespace: 'triton', name: 'triton', scrapeSeconds: 15 };

/** A time series with one value per 15 s, from minute 0. */
interface Series {
  series: string;
  values: string;
}

const labels = (pod: string, more = ''): string => `{namespace="triton",job="triton",pod="${pod}"${more}}`;
const up = (pod: string, values = '1x400'): Series => ({ series: `up${labels(pod)}`, values });
const ofModel = (metric: string, pod: string, values: string, model = 'bert'): Series => ({
  series: `${metric}${labels(pod, `,model="${model}",version="1"`)}`,
  values,
});

/** Series of `count` requests per 15 s, each of which waited for `milliseconds`. */
const requests = (pod: string, count: number, milliseconds: number, model = 'bert'): Series[] => [
  ofModel('nv_inference_request_success', pod, `0+${count}x400`, model),
  ofModel('nv_inference_queue_duration_us', pod, `0+${count * milliseconds * 1000}x400`, model),
  ofModel('nv_inference_request_failure', pod, '0x400', model),
  ofModel('nv_inference_count', pod, `0+${count}x400`, model),
  ofModel('nv_inference_pending_request_count', pod, '0x400', model),
];

/** A series of the agent of a pod. */
const ofAgent = (metric: string, values: string, pod = POD): Series => ({
  series: `${metric.startsWith('up') ? metric : `triton_agent_${metric}`}{namespace="triton",job="triton/triton-agent",pod="${pod}"}`,
  values,
});

const POD = 'triton-6d5f7c9b8-x2x4z';
const OTHER = 'triton-6d5f7c9b8-abcde';
const quiet = [up(POD), up(OTHER), ...requests(POD, 150, 5), ...requests(OTHER, 150, 5)];

/** Prometheus's promtool reads the rules and evaluates them on constructed series. */
describeUnless(whyNoGo(['promtool']), 'the rules', () => {
  const scratch = new Scratch();
  let promtool: string;
  const rules = join(scratch.directory, 'rules.json');

  beforeAll(async () => {
    promtool = await ensurePromtool();
    // JSON is valid YAML.
    writeFileSync(rules, JSON.stringify({ groups: ruleGroups(settings) }));
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** Runs `promtool test rules` on one test. @returns the failures, or an empty string */
  async function check(test: object): Promise<string> {
    const file = join(scratch.directory, 'test.json');
    writeFileSync(
      file,
      JSON.stringify({ rule_files: [rules], evaluation_interval: '15s', tests: [{ interval: '15s', ...test }] }),
    );
    try {
      await exec(promtool, ['test', 'rules', file]);
      return '';
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      return error.output.stdout + error.output.stderr;
    }
  }

  const alertTest = (alertname: string, minute: number, expected: Record<string, string>[]): object => ({
    eval_time: `${minute}m`,
    alertname,
    exp_alerts: expected.map(({ summary = '', severity = 'warning', ...rest }) => ({
      exp_labels: { severity, namespace: 'triton', server: 'triton', ...rest },
      exp_annotations: { summary, runbook: `docs/operations.md#${alertname.toLowerCase()}` },
    })),
  });

  const fires = (alertname: string, minute: number, input: Series[], expected: Record<string, string>[]) =>
    check({ input_series: input, alert_rule_test: [alertTest(alertname, minute, expected)] });

  const expressionTest = (expr: string, samples: { labels: string; value: number }[]): object => ({
    expr,
    eval_time: '30m',
    exp_samples: samples,
  });

  const yields = (expr: string, input: Series[], samples: { labels: string; value: number }[]) =>
    check({ input_series: input, promql_expr_test: [expressionTest(expr, samples)] });

  test('promtool accepts all rules in strict mode', async () => {
    const { stdout } = await exec(promtool, ['check', 'rules', '--lint=all', '--lint-fatal', rules]);
    expect(stdout).toMatch(/SUCCESS: 16 rules found/);
  });

  test('promtool accepts every query of the dashboard', async () => {
    const queries = panels(OF, true).flatMap(({ queries: of }) => of.map(({ expression }) => expression));
    expect(queries.length).toBeGreaterThan(12);
    const without = queries.map((expr) => expressionTest(expr, []));
    expect(await check({ input_series: [], promql_expr_test: without })).toBe('');
  });

  test('no alert fires while two replicas answer quickly', async () => {
    const names = ruleGroups(settings).flatMap(({ rules: all }) => all.flatMap(({ alert }) => alert ?? []));
    expect(names).toHaveLength(15);
    const none = names.map((name) => alertTest(name as string, 90, []));
    expect(await check({ input_series: quiet, alert_rule_test: none })).toBe('');
  });

  /** The Deployment of Triton with these numbers of replicas. */
  const replicas = (available: string, desired: string): Series[] =>
    Object.entries({ status_replicas_available: available, spec_replicas: desired }).map(([metric, values]) => ({
      series: `kube_deployment_${metric}{namespace="triton",deployment="triton"}`,
      values,
    }));

  describe('alerts about agents', () => {
    const OF_POD = { namespace: 'triton', job: 'triton/triton-agent', pod: POD };
    /** Series of an agent that serves head, with some replaced. */
    const agent = (changed: Record<string, string> = {}): Series[] =>
      Object.entries({
        up: '1x400',
        serves_head: '1x400',
        trial_active: '0x400',
        last_head_read_timestamp_seconds: '0+15x400',
        download_failures_total: '0x400',
        ...changed,
      }).map(([metric, values]) => ofAgent(metric, values));

    test('none fires for an agent that serves head', async () => {
      const names = [
        'TritonNotServing',
        'TritonAgentDown',
        'TritonReleaseNotServed',
        'TritonHeadUnread',
        'TritonDownloadFailing',
      ];
      const none = names.map((name) => alertTest(name, 90, []));
      expect(await check({ input_series: agent(), alert_rule_test: none })).toBe('');
    });

    test('TritonNotServing fires if no replica is available, unless none is desired', async () => {
      const summary = 'No replica of triton serves its models.';
      const expected = [{ namespace: 'triton', deployment: 'triton', severity: 'critical', summary }];
      expect(await fires('TritonNotServing', 90, replicas('1x400', '2x400'), [])).toBe('');
      expect(await fires('TritonNotServing', 90, replicas('0x400', '0x400'), [])).toBe('');
      const none = replicas('1x20 0x400', '2x400');
      expect(await fires('TritonNotServing', 6, none, [])).toBe('');
      expect(await fires('TritonNotServing', 8, none, expected)).toBe('');
    });

    test('TritonAgentDown fires after five minutes without an answer', async () => {
      const input = agent({ up: '0x400' });
      expect(await fires('TritonAgentDown', 4, input, [])).toBe('');
      const summary = `The release agent of pod ${POD} does not answer.`;
      expect(await fires('TritonAgentDown', 6, input, [{ ...OF_POD, summary }])).toBe('');
    });

    test('TritonReleaseNotServed fires after the time of a start, but not during a trial', async () => {
      const summary = `The replica ${POD} does not serve the current release.`;
      const input = agent({ serves_head: '0x400' });
      expect(await fires('TritonReleaseNotServed', 15, input, [])).toBe('');
      expect(await fires('TritonReleaseNotServed', 20, input, [{ ...OF_POD, summary }])).toBe('');
      const trial = agent({ serves_head: '0x400', trial_active: '1x400' });
      expect(await fires('TritonReleaseNotServed', 90, trial, [])).toBe('');
    });

    test('TritonHeadUnread fires if S3 was not read for five minutes', async () => {
      const input = agent({ last_head_read_timestamp_seconds: '0+15x40 600x400' });
      const summary = `The replica ${POD} has not read the current release from S3 for 7m 0s.`;
      expect(await fires('TritonHeadUnread', 14, input, [])).toBe('');
      expect(await fires('TritonHeadUnread', 17, input, [{ ...OF_POD, summary }])).toBe('');
    });

    test('TritonDownloadFailing fires if attempts fail repeatedly, but not for one failure', async () => {
      const once = agent({ download_failures_total: '0x20 1x400' });
      expect(await fires('TritonDownloadFailing', 10, once, [])).toBe('');
      const often = agent({ download_failures_total: '0+1x400' });
      const summary = `The replica ${POD} cannot download a release: 60 failures in 15 minutes.`;
      expect(await fires('TritonDownloadFailing', 30, often, [{ ...OF_POD, summary }])).toBe('');
    });
  });

  describe('alerts', () => {
    test('TritonDown fires if no replica answers or no replica exists', async () => {
      const expected = [{ severity: 'critical', summary: 'No replica of triton answers Prometheus.' }];
      const stopped = [up(POD, '1x20 0x400')];
      expect(await fires('TritonDown', 6, stopped, [])).toBe('');
      expect(await fires('TritonDown', 8, stopped, expected)).toBe('');
      expect(await fires('TritonDown', 3, [], [{ ...expected[0], job: 'triton' }])).toBe('');
    });

    test('TritonReplicasMissing fires if a replica is missing longer than a pod takes to start', async () => {
      const missing = replicas('2x400', '3x400');
      const summary = 'triton has 2 available replicas, fewer than desired.';
      expect(await fires('TritonReplicasMissing', 34, missing, [])).toBe('');
      expect(await fires('TritonReplicasMissing', 37, missing, [{ deployment: 'triton', summary }])).toBe('');
    });

    test.each(['container', 'init_container'])(
      'TritonRestarting fires after more than two restarts per hour, only for Triton pods (%s)',
      async (kind) => {
        const restarts = (pod: string): Series => ({
          series: `kube_pod_${kind}_status_restarts_total{namespace="triton",pod="${pod}"}`,
          values: '0x40 1x40 2x40 3x40 4x400',
        });
        const summary = `The replica ${POD} was restarted 4 times within an hour.`;
        const input = [restarts(POD), restarts('triton-other-1')];
        expect(await fires('TritonRestarting', 60, input, [{ pod: POD, summary }])).toBe('');
        expect(await fires('TritonRestarting', 20, input, [])).toBe('');
      },
    );

    test('TritonUnschedulable fires for a pod that cannot be scheduled', async () => {
      const input = [
        { series: `kube_pod_status_unschedulable{namespace="triton",pod="${POD}"}`, values: '1x400' },
        { series: `kube_pod_status_unschedulable{namespace="triton",pod="${OTHER}"}`, values: '0x400' },
      ];
      const summary = `No node has room for the pod ${POD}.`;
      expect(await fires('TritonUnschedulable', 10, input, [])).toBe('');
      expect(await fires('TritonUnschedulable', 16, input, [{ pod: POD, summary }])).toBe('');
    });

    test('TritonModelsDiffer fires for a model on one of two replicas; several GPUs count as one replica', async () => {
      const everywhere = [POD, OTHER].flatMap((pod) =>
        ['a', 'b'].map((gpu) => ({
          series: `nv_inference_count${labels(pod, `,model="resnet",version="2",gpu_uuid="${gpu}"`)}`,
          values: '0x400',
        })),
      );
      const input = [...quiet, ...everywhere, up('downloading'), ofModel('nv_inference_count', POD, '0x400', 'new')];
      const summary = 'Model new version 1 is loaded on 1 replicas, but not on all.';
      expect(await fires('TritonModelsDiffer', 16, input, [{ model: 'new', version: '1', summary }])).toBe('');
      expect(await fires('TritonModelsDiffer', 16, [...quiet, up('downloading')], [])).toBe('');
    });

    test('TritonRequestsFailing fires if more than 1% of the requests fail', async () => {
      const failing = (count: number): Series[] => [
        ...requests(POD, 1000, 1).filter(({ series }) => !series.startsWith('nv_inference_request_failure')),
        ofModel('nv_inference_request_failure', POD, `0+${count}x400`),
      ];
      const summary = '1.961% of the requests to model bert fail.';
      const expected = [{ severity: 'critical', model: 'bert', summary }];
      expect(await fires('TritonRequestsFailing', 10, failing(20), expected)).toBe('');
      expect(await fires('TritonRequestsFailing', 10, failing(10), [])).toBe('');
    });

    test('TritonQueueLong fires at four times the queue time that adds pods', async () => {
      const summary = 'Requests to model bert wait 250 ms before they are computed.';
      expect(await fires('TritonQueueLong', 15, requests(POD, 100, 250), [{ model: 'bert', summary }])).toBe('');
      expect(await fires('TritonQueueLong', 15, requests(POD, 100, 190), [])).toBe('');
    });

    test('TritonRequestsStuck fires if requests wait and none completes', async () => {
      const pending = ofModel('nv_inference_pending_request_count', POD, '7x400');
      const stuck = [pending, ofModel('nv_inference_request_success', POD, '500x400')];
      const busy = [pending, ofModel('nv_inference_request_success', POD, '0+10x400')];
      const summary = `7 requests to model bert wait in pod ${POD}, and none completes.`;
      const expected = [{ severity: 'critical', model: 'bert', pod: POD, summary }];
      expect(await fires('TritonRequestsStuck', 10, stuck, expected)).toBe('');
      expect(await fires('TritonRequestsStuck', 10, busy, [])).toBe('');
    });

    test('TritonGpuMemoryFull fires if GPU memory is almost full', async () => {
      const gpu = (metric: string, values: string): Series => ({
        series: `${metric}${labels(POD, ',gpu_uuid="GPU-1"')}`,
        values,
      });
      const memory = [gpu('nv_gpu_memory_used_bytes', '23x400'), gpu('nv_gpu_memory_total_bytes', '24x400')];
      const summary = `The memory of a GPU of pod ${POD} is 95.83% full.`;
      const expected = [{ pod: POD, job: 'triton', gpu_uuid: 'GPU-1', summary }];
      expect(await fires('TritonGpuMemoryFull', 16, memory, expected)).toBe('');
    });

    // The name that KEDA chooses, and the name of custom-metrics.
    test.each(['keda-hpa-triton', 'triton'])('TritonAtMaximumReplicas fires at the maximum of %s', async (name) => {
      const autoscaler = `{namespace="triton",horizontalpodautoscaler="${name}"}`;
      const input = [
        { series: `kube_horizontalpodautoscaler_status_current_replicas${autoscaler}`, values: '8x400' },
        { series: `kube_horizontalpodautoscaler_spec_max_replicas${autoscaler}`, values: '8x400' },
      ];
      const summary = 'triton has had 8 replicas, its maximum, for 15 minutes.';
      const expected = [{ horizontalpodautoscaler: name, summary }];
      expect(await fires('TritonAtMaximumReplicas', 16, input, expected)).toBe('');
    });
  });

  describe('autoscaling metric', () => {
    const query = scalingQuery(OF, 50);

    test('the recording rule takes the slowest model of each pod', async () => {
      const input = [...requests(POD, 100, 20, 'slow'), ...requests(POD, 100, 5, 'quick'), ...requests(OTHER, 10, 8)];
      const of = (pod: string): string => `triton_queue_milliseconds{job="triton", namespace="triton", pod="${pod}"}`;
      expect(
        await yields('triton_queue_milliseconds', input, [
          { labels: of(OTHER), value: 8 },
          { labels: of(POD), value: 20 },
        ]),
      ).toBe('');
    });

    test('the query multiplies the queue time of the slowest model by the number of replicas with models', async () => {
      const input = [
        up(POD),
        up(OTHER),
        up('starting', '0x400'),
        up('downloading'),
        ...requests(POD, 100, 80, 'slow'),
        ...requests(OTHER, 100, 80, 'slow'),
        ...requests(POD, 900, 1, 'quick'),
      ];
      expect(await yields(query, input, [{ labels: '{}', value: 160 }])).toBe('');
    });

    test('the query requests at most twice the replicas with models', async () => {
      const input = [up(POD), up(OTHER), ...requests(POD, 1, 60_000), ofModel('nv_inference_count', OTHER, '0x400')];
      expect(await yields(query, input, [{ labels: '{}', value: 2 * 2 * 50 }])).toBe('');
    });

    test('the query returns 0 without requests and nothing without metrics', async () => {
      expect(await yields(query, [up(POD), up(OTHER)], [{ labels: '{}', value: 0 }])).toBe('');
      expect(await yields(query, [], [])).toBe('');
    });
  });
});
