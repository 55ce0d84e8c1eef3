import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

export interface LoadOptions {
  /** Most requests in flight. Without `rate`, this number is always in flight. */
  concurrency: number;
  seconds: number;
  /** Requests per second, at equal intervals. */
  rate?: number;
  /** Default: WARM_UP_MS. */
  warmUpMs?: number;
}

/** Result of a load test. */
export interface LoadResult {
  requests: number;
  seconds: number;
  requestsPerSecond: number;
  /**
   * Latency of the answered requests, in milliseconds. With a rate it counts from the time at which the request was due: a
   * slow answer that delays later requests delays them in the result too.
   */
  p50: number;
  p95: number;
  p99: number;
  max: number;
  errors: number;
  /** Requests that were due and never sent, because all permitted requests were in flight. */
  unsent: number;
  /** Number of occurrences of each error message. */
  messages: Record<string, number>;
}

/** Requests of each sender that are not counted. They open the sender's connection and show the server the shape. */
export const WARM_UP_REQUESTS = 2;
/**
 * Default duration of the warm-up, in ms. Its requests are not counted, because compilers must first see a program run.
 */
export const WARM_UP_MS = 2000;

/**
 * Sends requests for `seconds`. Without a rate, each of `concurrency` senders waits for an answer before its next request.
 * @param send sends one request and resolves with its answer
 * @throws the error of `send` if every request of the warm-up fails
 */
export async function generateLoad(send: () => Promise<unknown>, options: LoadOptions): Promise<LoadResult> {
  const { seconds, rate, warmUpMs = WARM_UP_MS } = options;
  const latencies: number[] = [];
  const messages: Record<string, number> = {};
  const measured = async (due: number): Promise<void> => {
    try {
      await send();
      latencies.push(performance.now() - due);
    } catch (error) {
      const { message } = error as Error;
      messages[message] = (messages[message] ?? 0) + 1;
    }
  };
  await warmUp(send, { ...options, warmUpMs });
  const started = performance.now();
  const end = started + seconds * 1000;
  const unsent = rate === undefined ? await keepInFlight(measured, end, options) : await sendAt(measured, end, options);
  const took = (performance.now() - started) / 1000;
  const sorted = latencies.sort((a, b) => a - b);
  return {
    requests: sorted.length,
    seconds: took,
    requestsPerSecond: sorted.length / took,
    p50: percentile(sorted, 50),
    p95: percentile(sorted, 95),
    p99: percentile(sorted, 99),
    max: sorted.at(-1) ?? NaN,
    errors: Object.values(messages).reduce((sum, count) => sum + count, 0),
    unsent,
    messages,
  };
}

/** @throws the error of `send` if no request is answered */
async function warmUp(send: () => Promise<unknown>, options: LoadOptions & { warmUpMs: number }): Promise<void> {
  let answered = 0;
  let failure: unknown;
  const tried = async (): Promise<void> => {
    try {
      await send();
      answered += 1;
    } catch (error) {
      failure = error;
    }
  };
  // A load at a rate warms the server up with that rate, because it may be in use.
  const senders = options.rate === undefined ? options.concurrency : 1;
  const end = performance.now() + options.warmUpMs;
  await atOnce(senders, async () => {
    for (let i = 0; i < WARM_UP_REQUESTS; i += 1) await tried();
  });
  if (answered === 0) throw failure;
  await (options.rate === undefined ? keepInFlight(tried, end, options) : sendAt(tried, end, options));
}

const atOnce = (senders: number, work: () => Promise<void>): Promise<unknown> =>
  Promise.all(Array.from({ length: senders }, work));

async function keepInFlight(
  send: (due: number) => Promise<void>,
  end: number,
  { concurrency }: LoadOptions,
): Promise<number> {
  await atOnce(concurrency, async () => {
    for (let now = performance.now(); now < end; now = performance.now()) await send(now);
  });
  return 0;
}

/** @returns the number of requests that were due and not sent */
async function sendAt(
  send: (due: number) => Promise<void>,
  end: number,
  { concurrency, rate = 1 }: LoadOptions,
): Promise<number> {
  const started = performance.now();
  const getDue = (index: number): number => started + (index * 1000) / rate;
  const inFlight = new Set<Promise<void>>();
  let sent = 0;
  for (; getDue(sent) < end; sent += 1) {
    await waitUntil(getDue(sent));
    const isFull = inFlight.size >= concurrency;
    while (inFlight.size >= concurrency) await Promise.race(inFlight);
    // A request that is late for another reason is sent.
    if (isFull && performance.now() >= end) break;
    const request = send(getDue(sent)).finally(() => inFlight.delete(request));
    inFlight.add(request);
  }
  await Promise.all(inFlight);
  return Math.ceil(((end - started) * rate) / 1000) - sent;
}

/** Timers may be late by about this. */
const TIMER_MS = 2;

async function waitUntil(time: number): Promise<void> {
  const left = time - performance.now();
  if (left > TIMER_MS) await sleep(left - TIMER_MS);
  while (performance.now() < time) await turn();
}

/** The smallest value that at least `percent` percent of the values do not exceed. */
export function percentile(sorted: readonly number[], percent: number): number {
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? NaN;
}
