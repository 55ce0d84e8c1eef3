import { join } from 'node:path';
import { panels } from '../../infra/triton/monitoring/dashboard';
import { loadSignals, scalingQuery } from '../../infra/triton/monitoring/load-signals';
import { exec } from '../../src/core/exec';
import { whyNoGo } from '../../tools/toolchain/go';
import { ensurePromtool } from '../../tools/toolchain/promtool';
import { describeUnless } from '../support/describe-unless';
import { GROUPS, OF, parseStories, promtoolTest, runPromtool, type Story } from '../support/stories';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 30 * 60_000;

/** The words are in test/support/stories.ts. Values are of each 15 s, and minutes begin at 0. */
const STORIES = parseStories(`
TritonModelGone: no new replica can load a model that had requests
  deployment; up a 1x1000; loaded a 0+100x1000; loaded b/plan 0+100x120,stale; success b/plan 0+100x120,stale
  silent 29 32, fires 40 90 240
  says 40 critical model=plan: Model plan had requests in the last day, and no replica has loaded it any more.
TritonModelGone: a model without requests is deleted
  deployment; up a; requests a 100 5; loaded a/unused 5x120,stale; success a/unused 5x120,stale
  silent 29 40 90
TritonModelGone: the only replica is replaced, and its agent loads the models after Triton answers
  deployment; desired 1x400; available 1x120,0x40,1x400; up a 1x120,stale; up b _x125,1x400
  success a 0+100x120,stale; loaded a 0+100x120,stale; loaded b _x155,0+100x400
  silent 29 36 37 38 40 60
TritonModelGone: Prometheus reaches no replica
  deployment; up a 1x120,0x400; success a 0+100x120,stale; loaded a 0+100x120,stale
  silent 29 40 90
TritonNoModels: every replica is ready without any model, as with a broken driver
  deployment; up a; loaded a/unused 5x280,stale
  silent 69 72, fires 80 95
  says 80 critical: No replica of triton has loaded any model.
TritonNoModels: for a day, no replica has any model
  deployment; available 2x6200; up a 1x6200; loaded a 5x80,stale
  fires 1445
TritonNoModels: the repository is empty
  deployment; up a
  silent 5 60 95

TritonDown: all replicas stop, lose their addresses and return without an answer: one alert without a gap
  deployment; available 2x40,0x400; up a 1x40,stale; up b _x60,0x400
  silent 9 11, fires 13 15 15.5 16 17 30
TritonDown: no replica exists, and the cluster has no kube-state-metrics
  silent 1, fires 3
  says 3 critical: No replica of triton answers Prometheus.
TritonDown: the stack has no replicas on purpose
  deployment; desired 0x400; available 0x400
  silent 5 60
TritonDown: a new server starts its first pods
  deployment; created 0x400; available 0x400; up a _x10,0x400
  silent 5 30, fires 50
TritonDown: the only replica is updated
  deployment; desired 1x400; generation 3x40,4x400; available 0x400; up a 1x40,0x400
  silent 15 25, fires 45
TritonDown: the autoscaler changed the Deployment before all replicas stopped
  deployment; generation 3x39,4x400; up a 1x40,0x400
  fires 13
TritonDown: the autoscaler removed all but one replica, which stops minutes later
  deployment; desired 2x39,1x400; generation 3x39,4x400; up a 1x60,0x400
  silent 12, fires 18
TritonDown: a stack is scaled up from 0 in the morning
  deployment; desired 0x40,2x400; available 0x50,2x400; up a _x50,1x400
  silent 13 15 18 30
TritonDown: a stack that was scaled up from 0 does not start
  deployment; desired 0x40,2x400; available 0x400
  fires 60
TritonNotServing: replicas answer Prometheus, and none is available
  deployment; available 1x20,0x400; up ab
  silent 6, fires 8
  says 8 critical: No replica of triton serves its models.
TritonNotServing: a new server starts its first pods
  deployment; created 0x400; available 0x400
  silent 30, fires 50
TritonNotServing: one of two replicas is available
  deployment; available 1x400
  silent 90
TritonNotServing: the stack has no replicas on purpose
  deployment; desired 0x400; available 0x400
  silent 90
TritonNotServing: the only replica is updated
  deployment; desired 1x400; generation 3x40,4x400; available 1x40,0x400
  silent 15 25, fires 45
TritonCapacityLow: seven of eight pods are lost
  deployment; desired 8x400; available 8x40,1x400
  silent 9 20, fires 35
  says 35 critical: Only 12.5% of the desired replicas of triton are available.
TritonCapacityLow: a new server starts its first pods
  deployment; created 0x400; available 0x400
  silent 10 25, fires 90
TritonCapacityLow: a stack that was scaled up from 0 does not start
  deployment; desired 0x40,4x400; available 0x400
  silent 30, fires 50
TritonCapacityLow: the only replica is updated, and does not start
  deployment; desired 1x400; generation 3x40,4x400; available 1x40,0x400
  silent 30, fires 50
TritonCapacityLow: one of two pods is replaced
  deployment; available 1x400
  silent 35 90

TritonReplicaEvicted: a pod is evicted, because it filled its disk
  reason a/Evicted 0x40,1x400
  silent 9 80, fires 11 60
  says 11 warning pod=a reason=Evicted: Kubernetes evicted the replica POD a.
TritonReplicaEvicted: a pod is drained, and another one is lost with its node
  reason a/Evicted 0x40,stale; reason b/NodeLost 0x40,1x400
  silent 9 11 60
TritonMemoryHigh: a container uses more and more of its 8 GB
  used a/triton/1 5e9+2e7x160,7.6e9x400; limit a/triton/memory 8e9x400; limit a/triton/ephemeral_storage 24e9x400; used a//pod 9e9x400; limit a//memory 9e9x400
  silent 20 29 32, fires 34 60
  says 60 warning pod=a container=triton: The container triton of POD a uses 95% of its memory limit.
TritonMemoryHigh: a load needs nine tenths of the memory for three minutes
  used a/triton/1 5e9x40,7.5e9x12,6e9x400; limit a/triton/memory 8e9x400
  silent 12 13 16 60
TritonMemoryHigh: a restarted container needs less memory than its predecessor
  used a/triton/1 7.9e9x8,stale; used a/triton/2 _x10,4e9x400; limit a/triton/memory 8e9x400
  silent 2 5 8 30

TritonRequestsFailing: 2% of the requests fail, and Triton counts each once
  success a 0+1000x400; failure a/bert/1/BACKEND 0+20x400
  silent 3, fires 10
  says 10 critical model=bert version=1: 1.961% of the requests to model bert version 1 fail.
TritonRequestsFailing: 0.6% of the requests to an ensemble fail, and Triton counts each twice
  success a/whole 0+994x400; failure a/whole/1/OTHER 0+12x400; failure a/whole/1/CANCELED 0+100x400
  silent 10 30
TritonRequestsFailing: every fifth request to an ensemble with two requests per minute fails
  success a/whole 0+1.6x400; failure a/whole/1/OTHER 0+0.8x400
  fires 30 60 90
TritonRequestsFailing: four requests to an ensemble fail, and clients cancel others
  success a/whole 0x400; failure a/whole/1/OTHER 0x10,2x6,4x6,6x6,8x400; failure a/whole/1/CANCELED 0+1x400
  silent 5 7.5 8 10
TritonRequestsFailing: clients cancel 5% of their requests, and 0.1% fail
  success a 0+950x400; failure a/bert/1/CANCELED 0+50x400; failure a/bert/1/BACKEND 0+1x400
  silent 10 30
TritonRequestsFailing: 2% of the requests exceed their time in the queue
  success a 0+980x400; failure a/bert/1/REJECTED 0+20x400
  fires 10
TritonRequestsFailing: every request to a new version fails, and it has 0.5% of the traffic
  success a 0+9950x400; success a/bert/2 0x400; failure a/bert/2/BACKEND 0+50x400
  fires 10
TritonRequestsFailing: a model is asked every three minutes, and each request fails
  success a 0x400; failure a/bert/1/BACKEND 0+0x11,1+0x11,2+0x11,3+0x11,4+0x11,5+0x11,6+0x11,7+0x11,8+0x11
  silent 5 12, fires 24 26
TritonRequestsFailing: four requests to a model with earlier failures fail
  success a 0x400; failure a/bert/1/BACKEND 5x20,6,7,8,9x400
  silent 24 27 32 33
TritonRequestsFailing: every fifth request to a model with two requests per minute fails
  success a 0+1.6x400; failure a/bert/1/BACKEND 0+0.4x400
  fires 30 60 90
TritonRequestsFailing: three requests to a quiet model fail, and clients cancel others
  success a 0x400; failure a/bert/1/BACKEND 0x10,1x6,2x6,3x400; failure a/bert/1/CANCELED 0+1x400
  silent 5 7.5 8 8.25 10
TritonRequestsFailing: failures of a busy model ended five minutes ago
  success a 0+100x80,8000+150x400; failure a/bert/1/BACKEND 0+50x80,4000x400
  fires 15, silent 25
TritonRequestsCanceled: clients give up while the queue is long
  requests a 100 80; failure a/bert/1/CANCELED 0+20x400; failure a/bert/1/BACKEND 0x400
  silent 5, fires 15
  says 15 warning model=bert: Clients cancel 16.67% of the requests to model bert.
TritonRequestsCanceled: clients cancel 2% of their requests, and the queue is short
  requests a 980 5; failure a/bert/1/CANCELED 0+20x400
  silent 15 60
TritonQueueLong: requests wait four times as long as those for which the autoscaler adds pods
  requests a 100 250
  silent 9, fires 15
  says 15 warning model=bert: Requests to model bert wait 250 ms before they are computed.
TritonQueueLong: requests wait less than that
  requests a 100 190
  silent 15 60
TritonRequestsStuck: one request takes seven minutes while others wait
  pending a 0x40,3x27,0x400; success a 0+10x40,400x27,410+10x400
  silent 12 15 17 17.5 20 30
TritonRequestsStuck: no request is answered any more in one of two pods
  pending a 0x40,3x400; success a 0+10x40,400x400; pending b 3x400; success b 0+10x400
  silent 17, fires 22 60
  says 22 critical pod=a model=bert: 3 requests to model bert wait in pod POD a, and none completes.
TritonGpuMissing: one replica sees no GPU
  up ab; gpu b/0
  silent 3, fires 6 60
  says 6 critical pod=a: Triton in POD a sees 0 of 1 GPUs, and computes on the CPU without one.
TritonGpuMissing: every replica that answers sees its GPU, and another one starts
  up a; gpu a/0; up b 0x400
  silent 6 60

TritonAgentDown: one of two agents does not answer
  agent_up a 1x20,0x400; agent_up b 1x400
  silent 9, fires 11
  says 11 warning pod=a job=triton/triton-agent: The release agent of pod POD a does not answer.
TritonReleaseNotServed: a replica serves another release than the current one
  serves_head a 0x400; trial a 0x400; serves_head b 1x400; trial b 0x400
  silent 15, fires 20
  says 20 warning pod=a job=triton/triton-agent: The replica POD a does not serve the current release.
TritonReleaseNotServed: a replica tries a release
  serves_head a 0x400; trial a 1x400
  silent 90
TritonHeadUnread: a replica cannot read the current release, and another one can
  head_read a 0+15x40,600x400; head_read b 0+15x400
  silent 15.5, fires 17
  says 17 warning pod=a job=triton/triton-agent: The replica POD a has not read the current release from S3 for 7m 0s.
TritonDownloadFailing: each attempt fails
  download_failures a 0+1x400
  fires 30
  says 30 warning pod=a job=triton/triton-agent: The replica POD a cannot download a release: 60 failures in 15 minutes.
TritonDownloadFailing: one attempt fails
  download_failures a 0x20,1x400
  silent 10

TritonErrorBudgetBurnFast: from minute 60 to 120, 3% of the requests fail
  success a 0+242.5x1700; failure a/bert/1/BACKEND 0x240,7.5+7.5x239,1800x1200
  silent 62 80 126 180, fires 95 120
TritonErrorBudgetBurnSlow: every request of one minute fails
  success a 0+250x1596,399000x4,399250+250x600; failure a/bert/1/BACKEND 0x1596,250+250x3,1000x600
  silent 399 400 401 402 405 420 450 500
TritonErrorBudgetBurnSlow: from minute 60 to 420, 1% of the requests fail
  success a 0+247.5x2000; failure a/bert/1/BACKEND 0x240,2.5+2.5x1439,3600x400
  silent 60 120, fires 290 420, silent 455
  says 420 warning model=bert version=1: Over 6h, 1% of the requests to model bert version 1 failed; the objective is 0.1%.
TritonErrorBudgetBurnFast: from minute 60 on, 1% of the requests fail
  success a 0+247.5x1700; failure a/bert/1/BACKEND 0x240,2.5+2.5x1700
  silent 120 290 420
TritonErrorBudgetBurn(Fast|Slow): four requests to a quiet model fail, and clients cancel others
  success a 0x400; failure a/bert/1/BACKEND 0x40,1x4,2x8,3x4,4x300; failure a/bert/1/CANCELED 0+1x400
  silent 10 12 14 15 16 18 30
TritonErrorBudgetBurnFast: six requests to a quiet model fail
  success a 0x400; failure a/bert/1/BACKEND 0x40,2x4,4x4,6x300
  silent 10, fires 14
TritonErrorBudgetBurn(Fast|Slow): clients cancel 5% of their requests, and 0.1% fail
  success a 0+237.5x400; failure a/bert/1/CANCELED 0+12.5x400; failure a/bert/1/BACKEND 0+0.25x400
  silent 10 90
TritonErrorBudgetBurnFast: 1% of the requests to an ensemble fail, and Triton counts each twice
  success a/whole 0+247.5x400; failure a/whole/1/OTHER 0+5x400
  silent 10 90
TritonErrorBudgetBurnFast: until minute 60, 2% of the requests to an ensemble fail
  success a/whole 0+245x400; failure a/whole/1/OTHER 0+10x240,2400x160
  fires 10 60, silent 70
  says 60 critical model=whole: Over 1h, 2% of the requests to model whole failed; the objective is 0.1%.
TritonLatencyBudgetBurnFast: from minute 60 to 120, half of the requests take 150 ms
  success a 0+250x2000; takes a 0 10000x239,150000x239,10000x1200
  silent 59 70 127 180, fires 80 119
TritonLatencyBudgetBurnFast: every request of five minutes is slow
  success a 0+250x2000; takes a 0 10000x239,150000x19,10000x1200
  silent 60 62 65 66 70 90
TritonLatencyBudgetBurnFast: a replica with a tenth of the requests is slow
  success a 0+250x1700; success b 0+2250x1700; takes a 0 150000x1700; takes b 0 10000x1700
  silent 60 120 400
TritonLatencyBudgetBurnFast: 8% of the requests are slow
  success a 0+250x1700; takes a 0.93 150000x1700
  silent 60 120 400
TritonLatencyBudgetBurnSlow: 8% of the requests are slow
  success a 0+250x1700; takes a 0.93 150000x1700
  fires 60 120 400
  says 400 warning model=bert version=1: Over 6h, at least 7% of the requests to model bert version 1 took more than 100 ms; the objective is 1%.
TritonLatencyBudgetBurnFast: 16% of the requests are slow
  success a 0+250x1700; takes a 0.85 150000x1700
  fires 60 120 400
  says 400 critical model=bert version=1: Over 1h, at least 15% of the requests to model bert version 1 took more than 100 ms; the objective is 1%.
TritonLatencyBudgetBurnSlow: 1% of the requests are slow, as the objective permits
  success a 0+250x1700; takes a 0.99 150000x1700
  silent 60 120 400
TritonLatencyBudgetBurnSlow: one of 601 requests is slow, a minute after the others
  success a 0x40,150+150x2,600x3,601x1600; takes a 0 NaNx40,20000x6,150000x3,NaNx1600
  silent 12 13 14 20 60 240 360
TritonLatencyBudgetBurn(Fast|Slow): the first three requests to a new version are slow, and Triton reports no durations before and after
  success a 0x19,1x3,2x3,3x400; takes a 0 NaNx19,900000x11,NaNx80
  silent 4 5 6 7 8 10

replicas: Prometheus has no metrics
  asks queue nothing batches nothing
replicas: Prometheus reaches no replica, and clients still do
  available 2x400; up ab 0x400
  asks queue nothing batches nothing
replicas: no requests
  available 2x400; up ab
  asks queue 0 batches 0
replicas: loaded models without requests
  available 2x400; up a; loaded a 0x400
  asks queue 0 batches 0
replicas: Prometheus reaches two of eight replicas, and each is at its goal
  available 8x400; up ab; up cdefgh 0x400; requests ab 100 50; took ab 0+22500000x400; batches ab 0+100x400
  asks queue 8 batches 8
replicas: the slowest model of two replicas, while others start; kube-state-metrics has no answer
  up abd; up c 0x400; requests ab/slow 100 80; requests a/quick 900 1
  asks queue 2.46 batches 0
replicas: a very long queue asks for nearly twice the replicas that serve
  up ab; requests ab 100 60000
  asks queue 4 batches 0
replicas: all requests are stuck
  available 2x400; up ab; stuck ab
  asks queue 4 batches 0
replicas: one model is stuck, and another one answers quickly
  available 2x400; up ab; stuck a; requests b/quick 100 5
  asks queue 2.18 batches 0
replicas: half of the requests exceed their time in the queue, and the others waited for 40 ms
  available 2x400; up ab; requests a 100 40; failure a/bert/1/REJECTED 0+100x400
  asks queue 4 batches 0
replicas: one of a thousand requests exceeds its time in the queue
  available 2x400; up ab; requests a 1000 40; failure a/bert/1/REJECTED 0+1x400
  asks queue 1.78 batches 0
replicas: one request of 300 ms every two minutes
  available 2x400; up a; loaded a 0x400; pending a 0x400; success a 7x114,8x400; waited a 0x114,300000x400
  asks queue 0 batches 0
replicas: requests that are not batched: as many batches as requests are in flight
  available 3x400; up abc; computed abc 600 50
  asks queue 0 batches 3.43
replicas: requests in batches of eight
  available 3x400; up abc; computed abc 600 50 8
  asks queue 0 batches 0.86
replicas: a queue grows as fast as requests are answered: twice as many replicas, and those for waiting requests
  available 2x400; up ab; computed ab 150 150; pending ab 0+150x400
  asks queue 0 batches 4
replicas: clients cancel three times as many requests as are answered
  available 2x400; up ab; computed ab 150 150; failure ab/bert/1/CANCELED 0+450x400
  asks queue 0 batches 8
replicas: clients cancel nearly all requests: no more than four times as many replicas
  available 2x400; up ab; computed ab 150 150; failure ab/bert/1/CANCELED 0+15000x400
  asks queue 0 batches 8
replicas: a model fails as many requests as it answers, which were computed
  available 2x400; up ab; computed ab 150 150; failure ab/bert/1/BACKEND 0+150x400
  asks queue 0 batches 2
replicas: a replica has just started, and requests wait in it
  available 2x400; up a; requests a 100 5; up b _x119,1x400; pending b _x119,9x400
  asks queue 0.36 batches 0
replicas: clients keep their connections to one of four replicas, as in a HorizontalPodAutoscaler of custom metrics
  available 4x400; up abcd; computed a 600 50; waited a 0+24000000x400; loaded bcd 0x400
  asks queue 0.89 batches 1.14
replicas: five pods are busy for 63% of the time
  available 5x400; up abcde; computed abcde 150 116.6
  asks queue 0 batches 4.37
replicas: three pods are busy for 47% of the time
  available 3x400; up abc; computed abc 150 67.08
  asks queue 0 batches 1.85
`);

const SIGNALS = loadSignals(OF, { queueMilliseconds: 50, instancesPerReplica: 1 });
/** What KEDA computes of each query. */
const QUERIES: Record<string, string> = Object.fromEntries(
  SIGNALS.map((signal, index) => [index === 0 ? 'queue' : 'batches', `(${scalingQuery(OF, signal)}) / ${signal.goal}`]),
);

/** What each panel draws of ten requests a second, its queries in their order. No autoscaler has run, whose own series are missing. */
const DRAWN: Readonly<Record<string, readonly number[]>> = {
  'Failed requests by reason': [1],
  Replicas: [2, 2, 1],
  'Requests by replica': [10],
  'Mean queue time by replica': [20],
  'Autoscaler: queue time': [20, 50],
  'Autoscaler: batches in flight per replica': [30, 150],
  'Autoscaler: what it read, share of the goal': [],
  'Autoscaler: conditions that hold': [],
  'Memory of the container, share of its limit': [0.25],
  Requests: [10],
  'Mean request duration': [60],
  'Request duration of the slowest replica: p50, p95, p99 of the last minute': [10, 10, 10, 80],
  'Mean compute time': [50],
  'Batches in flight per replica': [0.3],
  'Pending requests': [3],
  'Mean batch size': [2],
  'Replicas that have loaded a model': [1],
  'GPU utilization': [0.25],
  'GPU memory utilization': [0.25],
};

const NAMES = GROUPS.flatMap(({ rules }) => rules.flatMap(({ alert }) => (alert as string | undefined) ?? []));

/** Prometheus's promtool evaluates the rules on the series of each story. */
describeUnless(whyNoGo(['promtool']), 'monitoring', () => {
  const scratch = new Scratch();
  let promtool = '';
  beforeAll(async () => {
    promtool = await ensurePromtool();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  /** Without the other alerts, promtool evaluates hours in seconds. */
  const tell = (story: Story): Promise<string> => {
    const groups = GROUPS.map((group) => ({
      ...group,
      rules: group.rules.filter(
        ({ alert }) => alert === undefined || new RegExp(`^(${story.alert})$`).test(alert as string),
      ),
    }));
    return runPromtool(promtool, scratch.directory, groups, promtoolTest(story, QUERIES));
  };

  test.each(STORIES)('$alert: $story', async (story) => expect(await tell(story)).toBe(''));

  test('each alert has a story in which it fires, with its text', () => {
    const told = STORIES.filter(({ expected }) => expected.some((line) => line.startsWith('says')));
    expect([...new Set(told.map(({ alert }) => alert))].sort()).toEqual([...NAMES].sort());
  });

  test('promtool accepts all rules in strict mode, and none fires while two replicas answer quickly', async () => {
    const series = ['deployment', 'up ab', 'gpu ab/0', 'requests ab 150 5', 'takes ab 0 10000x400', 'agent_up ab'];
    series.push('serves_head ab', 'trial ab 0x400', 'head_read ab 0+15x400', 'download_failures ab 0x400');
    const quiet = promtoolTest({ story: '', alert: '.+', series, expected: ['silent 90'] }, QUERIES);
    expect(await runPromtool(promtool, scratch.directory, GROUPS, quiet)).toBe('');
    const rules = join(scratch.directory, 'rules.json');
    const { stdout } = await exec(promtool, ['check', 'rules', '--lint=all', '--lint-fatal', rules]);
    expect(stdout).toMatch(/SUCCESS: \d+ rules found/);
  });

  test('each panel of the dashboard draws the load in its unit', async () => {
    const series = ['deployment', 'up a', 'computed a 150 50 2', 'took a 0+9000000x400', 'compute a 0+7500000x400'];
    series.push(
      'takes a 0 10000x400',
      'failure a/bert/1/BACKEND 0+15x400',
      'waited a 0+3000000x400',
      'pending a 3x400',
    );
    series.push('gpu a/0 24e9x400', 'gpu_used a/0 6e9x400', 'gpu_busy a/0 0.25x400');
    series.push('used a/triton/1 2e9x400', 'limit a/triton/memory 8e9x400', 'ready 2x400');
    const all = panels(OF, { gpus: true, signals: SIGNALS, p99Milliseconds: 80 });
    expect(all.map(({ title }) => title)).toEqual(Object.keys(DRAWN));
    const values: Record<string, string> = {};
    const expected = all.flatMap(({ title, queries }) =>
      queries.map(({ expression }, index) => {
        const name = `${title.replaceAll(' ', '_')}_${index}`;
        values[name] = `sum(${expression.replaceAll('$__rate_interval', '60s')})`;
        return `${name} ${DRAWN[title]?.[index] ?? 'nothing'}`;
      }),
    );
    const story = { story: '', alert: '', series, expected: [`asks ${expected.join(' ')}`] };
    expect(await runPromtool(promtool, scratch.directory, [], promtoolTest(story, values))).toBe('');
  });
});
