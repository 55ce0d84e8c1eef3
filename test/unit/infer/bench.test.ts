import { setTimeout as sleep } from 'node:timers/promises';
import { bench, type BenchOptions } from '../../../src/infer/bench';

let stdout: string;
let stderr: string;
beforeEach(() => {
  [stdout, stderr] = ['', ''];
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => ((stdout += String(text)), true));
  jest.spyOn(process.stderr, 'write').mockImplementation((text) => ((stderr += String(text)), true));
});
afterEach(() => jest.restoreAllMocks());

/** A server that answers quickly while it has at most this many requests. */
function serverFor(most: number): () => Promise<void> {
  let inFlight = 0;
  return async () => {
    inFlight += 1;
    await sleep(inFlight > most ? 600 : 1);
    inFlight -= 1;
  };
}

const SHORT = { concurrency: 1, seconds: 0.05, warmUpMs: 0 };
const SUBJECT = { model: 'm', request: 'x FP32 [1]' };
const run = (send: () => Promise<void>, options: Partial<BenchOptions> & { json?: boolean } = {}): Promise<number> =>
  bench(send, SUBJECT, { ...SHORT, json: false, ...options }, {});

test('bench doubles the concurrency until the 99th percentile is above the goal', async () => {
  expect(await run(serverFor(4), { p99: 400, json: true })).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    model: 'm',
    p99Goal: 400,
    best: { concurrency: 4 },
    steps: [{ concurrency: 1 }, { concurrency: 2 }, { concurrency: 4 }, { concurrency: 8 }],
  });
});

test('bench doubles the rate until the 99th percentile is above the goal', async () => {
  expect(await run(serverFor(4), { p99: 400, rate: 25, concurrency: 64, seconds: 0.2 })).toBe(0);
  expect(stdout).toMatch(/^m, [^\n]*\n\nrate [^]*\n +25 [^]*\n +50 /);
  expect(stdout).toMatch(/\n\nMost with a p99 of at most 400 ms: [\d.]+ requests\/s at a rate of \d+\.\n$/);
});

test('a rate at which requests are not sent does not meet the goal', async () => {
  expect(await run(serverFor(0), { p99: 5000, rate: 100 })).toBe(1);
  expect(stdout).toMatch(/\nNo rate has a p99 of at most 5000 ms\.\n$/);
});

test('bench names the most requests per second within the goal', async () => {
  expect(await run(serverFor(2), { p99: 400 })).toBe(0);
  expect(stdout).toMatch(/^m, x FP32 \[1\], [\d.]+ s\n\nconcurrency [^]*\n +1 [^]*\n +2 [^]*\n +4 /);
  expect(stdout).toMatch(/\n\nMost with a p99 of at most 400 ms: [\d.]+ requests\/s at concurrency 2\.\n$/);
});

test('bench fails if no concurrency meets the goal', async () => {
  expect(await run(serverFor(0), { p99: 400 })).toBe(1);
  expect(stdout).toMatch(/\nNo concurrency has a p99 of at most 400 ms\.\n$/);
});

test('bench fails if requests were due and not sent, and says so', async () => {
  expect(await run(serverFor(0), { rate: 100 })).toBe(1);
  expect(stderr).toMatch(
    /\d+ requests were due and not sent, because 1 were in flight: the server is slower than 100 requests\/s/,
  );
});

test('bench keeps its results if a higher concurrency gets no answer', async () => {
  let inFlight = 0;
  const send = async (): Promise<void> => {
    inFlight += 1;
    await sleep(1);
    const isBusy = inFlight > 1;
    await sleep(1);
    inFlight -= 1;
    if (isBusy) throw new Error('busy');
  };
  expect(await run(send, { p99: 400 })).toBe(0);
  expect(stdout).toMatch(/\n\nMost with a p99 of at most 400 ms: .* at concurrency 1\.\n$/);
  expect(stderr).toContain('concurrency 2: busy\n');
});

test('bench fails if requests fail, and counts them by message', async () => {
  let sent = 0;
  const send = (): Promise<void> =>
    (sent += 1) > 2 ? sleep(60).then(() => Promise.reject(new Error('busy'))) : sleep(1);
  expect(await run(send)).toBe(1);
  expect(stderr).toContain('1 requests failed: busy\n');
});
