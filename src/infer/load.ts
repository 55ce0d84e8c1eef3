/** Result of a load test. */
export interface LoadResult {
  requests: number;
  seconds: number;
  requestsPerSecond: number;
  /** Latency of the answered requests, in milliseconds. */
  p50: number;
  p95: number;
  p99: number;
  max: number;
  errors: number;
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
 * Sends requests for `seconds` from `concurrency` senders. Each sender waits for an answer before its next request.
 * @param send sends one request and resolves with its answer
 * @throws the error of `send` if every request of the warm-up fails
 */
export async function generateLoad(
  send: () => Promise<unknown>,
  { concurrency, seconds, warmUpMs = WARM_UP_MS }: { concurrency: number; seconds: number; warmUpMs?: number },
): Promise<LoadResult> {
  const latencies: number[] = [];
  const messages: Record<string, number> = {};
  const sendOne = async (): Promise<void> => {
    const started = performance.now();
    try {
      await send();
      latencies.push(performance.now() - started);
    } catch (error) {
      const { message } = error as Error;
      messages[message] = (messages[message] ?? 0) + 1;
    }
  };
  const atOnce = (work: () => Promise<void>): Promise<unknown> =>
    Promise.all(Array.from({ length: concurrency }, work));
  const warm = performance.now() + warmUpMs;
  let answered = 0;
  let failure: unknown;
  await atOnce(async () => {
    for (let i = 0; i < WARM_UP_REQUESTS || (answered > 0 && performance.now() < warm); i += 1) {
      try {
        await send();
        answered += 1;
      } catch (error) {
        failure = error;
      }
    }
  });
  if (answered === 0) throw failure;
  const started = performance.now();
  const end = started + seconds * 1000;
  await atOnce(async () => {
    while (performance.now() < end) await sendOne();
  });
  const took = (performance.now() - started) / 1000;
  const sorted = latencies.sort((a, b) => a - b);
  const errors = Object.values(messages).reduce((sum, count) => sum + count, 0);
  return {
    requests: sorted.length,
    seconds: took,
    requestsPerSecond: sorted.length / took,
    p50: percentile(sorted, 50),
    p95: percentile(sorted, 95),
    p99: percentile(sorted, 99),
    max: sorted.at(-1) ?? NaN,
    errors,
    messages,
  };
}

/** The smallest value that at least `percent` percent of the values do not exceed. */
export function percentile(sorted: readonly number[], percent: number): number {
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? NaN;
}
