import { join } from 'node:path';
import { traceFlags } from '../../infra/triton/tracing';
import { TritonGrpcClient } from '../../src/triton/grpc';
import { newTrace } from '../../src/triton/traceparent';
import { whyNoGo } from '../../tools/toolchain/go';
import { testCollector, type Collector, type Span } from '../support/collector';
import { describeUnless } from '../support/describe-unless';
import { twoSteps } from '../support/ensemble-requests';
import { addingModel, writeRepository } from '../support/repository';
import { runCommandLine } from '../support/run';
import { Scratch } from '../support/temp-dir';
import { testTriton, type TestTriton } from '../support/triton';
import { until } from '../support/wait-for';

const BUILD_MS = 30 * 60_000;

/** The collector gets spans after this time instead of 5 s. */
const SOON = '--trace-config=opentelemetry,bsp_schedule_delay=100';

const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(0) } as const;

/** The names of the spans of a request to the ensemble, each with that of its parent. */
const STEPS = [
  'InferRequest < caller',
  'both < InferRequest',
  'first < both',
  'compute < first',
  'second < both',
  'compute < second',
].sort();

describeUnless(whyNoGo(['otelcol']), 'traces of a real Triton in a real collector', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());
  let collector: Collector;
  beforeAll(async () => {
    collector = await testCollector(scratch);
  }, BUILD_MS);

  const repository = writeRepository(join(scratch.directory, 'repository'), {
    ...addingModel('first', { 1: 1 }),
    ...addingModel('second', { 1: 2 }),
    'both/config.pbtxt': [
      'platform: "ensemble"',
      'input { name: "x" data_type: TYPE_FP32 dims: -1 }',
      'output { name: "y" data_type: TYPE_FP32 dims: -1 }',
      twoSteps('first', 'second', 1),
    ].join('\n'),
    'both/1/.keep': '',
  });

  /** Starts a Triton with the flags of a pod. */
  const startTraced = (name: string, sampleRate: number): Promise<TestTriton> => {
    const namespace = { name: 'vision', create: true, protect: false };
    const flags = traceFlags({ name, namespace, tracing: { otlpEndpoint: collector.endpoint, sampleRate } });
    const extraArguments = [...flags.map((flag) => flag.replace('$(POD_NAME)', `${name}-pod`)), SOON];
    return testTriton(scratch, repository, { name, extraArguments });
  };

  /** The spans of a trace, which the collector gets in several parts. */
  const waitForTrace = async (traceId: string): Promise<readonly Span[]> => {
    const find = (): Span[] => collector.spans.filter((span) => span.traceId === traceId);
    await until(`the spans of ${traceId}`, () => find().length >= STEPS.length);
    return find();
  };

  const tree = (spans: readonly Span[]): string[] => {
    const nameOf = (id: string): string => spans.find(({ spanId }) => spanId === id)?.name ?? 'caller';
    return spans.map(({ name, parentSpanId }) => `${name} < ${nameOf(parentSpanId)}`).sort();
  };

  test('a request with a trace context has a span for each step of an ensemble, below that of the caller', async () => {
    const server = await startTraced('asked', 0);
    const { code, stderr } = await runCommandLine('infer', ['both', '[0]', '--url', server.httpUrl, '--traceparent']);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const traceId = /^trace id ([0-9a-f]{32})$/m.exec(stderr)?.[1] ?? '';
    expect(tree(await waitForTrace(traceId))).toEqual(STEPS);

    const overGrpc = newTrace();
    const grpc = new TritonGrpcClient(server.grpcAddress);
    scratch.defer(() => grpc.close());
    await grpc.infer('both', [x]);
    await grpc.infer('both', [x], { traceparent: overGrpc.traceparent });
    const spans = await waitForTrace(overGrpc.traceId);
    expect(tree(spans)).toEqual(STEPS);
    const root = spans.find(({ name }) => name === 'InferRequest');
    expect(root?.parentSpanId).toBe(overGrpc.traceparent.split('-')[2]);

    expect(collector.resources[0]).toMatchObject({
      'service.name': 'asked',
      'k8s.namespace.name': 'vision',
      'k8s.pod.name': 'asked-pod',
    });
    // With the rate 0, the other requests have no trace.
    expect(new Set(collector.spans.map((span) => span.traceId))).toEqual(new Set([traceId, overGrpc.traceId]));

    const settings = await fetch(`${server.httpUrl}/v2/trace/setting`, { method: 'POST', body: '{"trace_rate":"1"}' });
    expect(settings.status).toBe(403);
  });

  test('a sample rate of 0.5 traces every second request', async () => {
    const server = await startTraced('sampled', 0.5);
    const before = collector.spans.length;
    for (let sent = 0; sent < 6; sent += 1) await server.client.infer('both', [x]);
    const last = newTrace();
    await server.client.infer('both', [x], { traceparent: last.traceparent });
    await waitForTrace(last.traceId);
    const traces = new Set(collector.spans.slice(before).map(({ traceId }) => traceId));
    traces.delete(last.traceId);
    expect(traces.size).toBe(3);
  });
});
