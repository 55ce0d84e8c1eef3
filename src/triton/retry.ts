import { setTimeout as sleep } from 'node:timers/promises';
import { TritonError, type ClientOptions } from './client';

/**
 * What a second try of a call may do: `read` changes nothing; `infer` changes nothing unless the model keeps a state;
 * `once` is the caller's to repeat.
 */
export type Repeatable = 'read' | 'infer' | 'once';

const DEFAULT_RETRIES = 2;
const FIRST_PAUSE_MS = 50;
/** What proxies and Triton answer while there is nobody to ask. */
const UNAVAILABLE = ['HTTP 502', 'HTTP 503', 'HTTP 504', 'gRPC UNAVAILABLE'];

/** What timers take at most: 24 days. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** The end of a call that begins now, as performance.now() counts. */
export function deadlineIn(timeoutMs: number): number {
  return performance.now() + Math.min(timeoutMs, LONGEST_TIMEOUT_MS);
}

/**
 * Calls `attempt` until it succeeds, may not be tried again, or the tries or the time are used up.
 * @param deadline as performance.now() counts
 */
export async function withRetries<T>(
  options: Pick<ClientOptions, 'retries' | 'retryInfer'>,
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
      // Not all clients that were turned away at once come back at once.
      const wait = pause * (0.5 + Math.random());
      if (left <= 0 || !mayRepeat(error, repeatable, options.retryInfer ?? false)) throw error;
      if (performance.now() + wait >= deadline) throw error;
      await sleep(wait);
    }
  }
}

function mayRepeat(error: unknown, repeatable: Repeatable, retryInfer: boolean): boolean {
  if (!(error instanceof TritonError)) return false;
  if (error.nothingSent) return true;
  if (repeatable === 'infer' && !retryInfer) return false;
  return error.status === 'unreachable' || UNAVAILABLE.includes(error.status);
}
