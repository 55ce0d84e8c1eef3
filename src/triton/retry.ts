import { setTimeout as sleep } from 'node:timers/promises';
import { TritonError, type ClientOptions } from './client';

/**
 * Whether a call may be retried. `read` changes nothing, so it may. `infer` may only if nothing was
 * sent, because models can keep state between requests. `once` is never retried here; the caller decides.
 */
export type Repeatable = 'read' | 'infer' | 'once';

const DEFAULT_RETRIES = 2;
const FIRST_PAUSE_MS = 50;
/** Statuses with which proxies and Triton report that no server is available. */
const UNAVAILABLE = ['HTTP 502', 'HTTP 503', 'HTTP 504', 'gRPC UNAVAILABLE'];

/** Longest delay that timers support: 24 days. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** The deadline of a call that begins now, on the clock of performance.now(). */
export function deadlineIn(timeoutMs: number): number {
  return performance.now() + Math.min(timeoutMs, LONGEST_TIMEOUT_MS);
}

/**
 * Calls `attempt` until it succeeds, fails with an error that may not be retried, or uses up the retries or the time.
 * @param deadline on the clock of performance.now()
 */
export async function withRetries<T>(
  options: Pick<ClientOptions, 'retries'>,
  repeatable: Repeatable,
  deadline: number,
  attempt: () => Promise<T>,
): Promise<T> {
  for (
    let left = repeatable === 'once' ? 0 : (options.retries ?? DEFAULT_RETRIES), pause = FIRST_PAUSE_MS;
    ;
    left -= 1, pause *= 2
  ) {
    try {
      return await attempt();
    } catch (error) {
      // Jitter, so that clients that failed together do not retry together.
      const wait = pause * (0.5 + Math.random());
      if (left <= 0 || !mayRepeat(error, repeatable)) throw error;
      if (performance.now() + wait >= deadline) throw error;
      await sleep(wait);
    }
  }
}

function mayRepeat(error: unknown, repeatable: Repeatable): boolean {
  if (!(error instanceof TritonError)) return false;
  if (error.nothingSent) return true;
  if (repeatable === 'infer') return false;
  return error.status === 'unreachable' || UNAVAILABLE.includes(error.status);
}
