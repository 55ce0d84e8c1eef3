import { panels } from '../../infra/triton/monitoring/dashboard';
import { loadSignals } from '../../infra/triton/monitoring/load-signals';
import { ruleGroups } from '../../infra/triton/monitoring/monitoring';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { RuleTester } from '../support/rule-tester';
import {
  gpuOf,
  labels,
  OF,
  ofModel,
  ofObject,
  OTHER,
  POD,
  requests,
  type Series,
  settingsOf,
  up,
} from '../support/series';

const BUILD_MS = 30 * 60_000;

/** A series of the agent of a pod. */
const ofAgent = (metric: string, values: string, pod = POD): Series => ({
  series: `${metric.startsWith('up') ? metric : `triton_agent_${metric}`}{namespace="triton",job="triton/triton-agent",pod="${pod}"}`,
  values,
});

const quiet = [up(POD), up(OTHER), gpuOf(POD), gpuOf(OTHER), ...requests(POD, 150, 5), ...requests(OTHER, 150, 5)];

const ofContainer = (metric: string, values: string, more = ''): Series => ({
  series: `${metric}{namespace="triton",pod="${POD}",container="triton"${more}}`,
  values,
});

const ofAutoscaler = (metric: string, more: string): Series => ({
  series: `kube_horizontalpodautoscaler_${metric}{namespace="triton",horizontalpodautoscaler="triton",${more}}`,
  values: '1x400',
});

/** Everything that the dashboard draws. */
const drawn = [
  ...quiet,
  ...['request_duration_us', 'compute_infer_duration_us', 'exec_count'].map((metric) =>
    ofModel(`nv_inference_${metric}`, POD, '0+150x400'),
  ),
  ...ofObject('deployment', 'triton', { status_replicas_ready: '2x400', spec_replicas: '2x400' }),
  ...ofObject('horizontalpodautoscaler', 'triton', {
    spec_max_replicas: '8x400',
    spec_min_replicas: '2x400',
    status_desired_replicas: '2x400',
  }),
  ...['spec', 'status'].map((part) =>
    ofAutoscaler(`${part}_target_metric`, 'metric_name="s0-prometheus",metric_target_type="average"'),
  ),
  ofAutoscaler('status_condition', 'condition="ScalingActive",status="true"'),
  ...['nv_cpu_utilization', 'nv_gpu_utilization', 'nv_gpu_memory_used_bytes'].map((metric) => ({
    series: `${metric}${labels(POD, metric.startsWith('nv_gpu') ? `,gpu_uuid="GPU of ${POD}"` : '')}`,
    values: '0.5x400',
  })),
  ...['0.5', '0.95', '0.99'].map((quantile) => ({
    series: `nv_inference_request_summary_us${labels(POD, `,model="bert",version="1",quantile="${quantile}"`)}`,
    values: '20000x400',
  })),
  {
    series: `nv_inference_request_failure${labels(POD, ',model="bert",version="1",reason="BACKEND"')}`,
    values: '0+1x400',
  },
  ofContainer('container_memory_working_set_bytes', '4e9x400', ',id="/kubepods/a"'),
  ofContainer('kube_pod_container_resource_limits', '8e9x400', ',resource="memory"'),
  ofContainer('container_cpu_cfs_throttled_periods_total', '0+10x400'),
  ofContainer('container_cpu_cfs_periods_total', '0+150x400'),
];

const returnsData = (expression: string): object => ({
  expr: `count(${expression}) > bool 0`,
  eval_time: '30m',
  exp_samples: [{ labels: '{}', value: 1 }],
});

/** Prometheus's promtool reads the rules and evaluates them on constructed series. */
describeUnless(whyNoGo(['promtool']), 'the rules', () => {
  const tester = new RuleTester();
  beforeAll(() => tester.install(), BUILD_MS);
  afterAll(() => tester.clean());
  const check = (test: object): Promise<string> => tester.check(test);

  const alertTest = (alertname: string, minute: number, expected: Record<string, string>[]): object => ({
    eval_time: `${minute}m`,
    alertname,
    exp_alerts: expected.map(({ summary = '', severity = 'warning', ...rest }) => ({
      exp_labels: { severity, namespace: 'triton', server: 'triton', ...rest },
      exp_annotations: { summary, runbook_url: `docs/runbook.md#${alertname.toLowerCase()}` },
    })),
  });

  const fires = (alertname: string, minute: number, input: Series[], expected: Record<string, string>[]) =>
    check({ input_series: input, alert_rule_test: [alertTest(alertname, minute, expected)] });

  test('promtool accepts all rules in strict mode', async () => {
    const { stdout } = await tester.run('check', 'rules', '--lint=all', '--lint-fatal', tester.rules);
    expect(stdout).toMatch(/SUCCESS: 24 rules found/);
  });

  test('every query of the dashboard returns data', async () => {
    const signals = loadSignals(OF, { queueMilliseconds: 50, instancesPerReplica: 1 });
    const queries = panels(OF, { gpus: true, signals, p99Milliseconds: 100 }).flatMap(({ queries: of }) => of);
    expect(queries.length).toBeGreaterThan(20);
    // Grafana replaces its variable.
    const expressions = queries.map(({ expression }) => expression.replaceAll('$__rate_interval', '1m'));
    expect(await check({ input_series: drawn, promql_expr_test: expressions.map(returnsData) })).toBe('');
  });

  test('no alert fires while two replicas answer quickly', async () => {
    const names = ruleGroups(settingsOf()).flatMap(({ rules: all }) => all.flatMap(({ alert }) => alert ?? []));
    expect(names).toHaveLength(20);
    const none = names.map((name) => alertTest(name as string, 90, []));
    expect(await check({ input_series: quiet, alert_rule_test: none })).toBe('');
  });

  /** The Deployment of Triton with these numbers of replicas. */
  const replicas = (available: string, desired: string): Series[] =>
    ofObject('deployment', 'triton', { status_replicas_available: available, spec_replicas: desired });

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
      const expected = [{ severity: 'critical', summary }];
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
      expect(await fires('TritonDown', 3, [], expected)).toBe('');
    });

    test('TritonMemoryHigh names the container', async () => {
      const memory = (bytes: string): Series[] => [
        ofContainer('container_memory_working_set_bytes', bytes),
        ofContainer('kube_pod_container_resource_limits', '8e9x400', ',resource="memory"'),
      ];
      const summary = `The container triton of ${POD} uses 95% of its memory limit.`;
      const expected = [{ pod: POD, container: 'triton', summary }];
      expect(await fires('TritonMemoryHigh', 6, memory('7.6e9x400'), expected)).toBe('');
      expect(await fires('TritonMemoryHigh', 6, memory('7.1e9x400'), [])).toBe('');
    });

    test('TritonRequestsFailing fires if more than 1% of the requests fail', async () => {
      const failing = (count: number): Series[] => [
        ...requests(POD, 1000, 1).filter(({ series }) => !series.startsWith('nv_inference_request_failure')),
        {
          series: `nv_inference_request_failure${labels(POD, ',model="bert",version="1",reason="BACKEND"')}`,
          values: `0+${count}x400`,
        },
      ];
      const summary = '1.961% of the requests to model bert version 1 fail.';
      const expected = [{ severity: 'critical', model: 'bert', version: '1', summary }];
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
      expect(await fires('TritonRequestsStuck', 15, stuck, expected)).toBe('');
      expect(await fires('TritonRequestsStuck', 15, busy, [])).toBe('');
    });
  });
});
