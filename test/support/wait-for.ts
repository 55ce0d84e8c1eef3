import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 50;

/**
 * Waits until `check` returns true. An error of `check` counts as false.
 * @param timeoutMs default: one minute, which a busy machine needs
 * @throws with the last error as its cause after the timeout
 */
export async function until(what: string, check: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  // Not Date.now, which some tests change.
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let last: unknown;
    try {
      if (await check()) return;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline) throw new Error(`timed out before this was true: ${what}`, { cause: last });
    await sleep(POLL_MS);
  }
}

const CONFLICT = 409;

/** Retries `change`, which reads and writes an object, while another client has changed the object in between. */
export async function retriedOnConflict<T>(change: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await change();
    } catch (error) {
      if ((error as { code?: number }).code !== CONFLICT) throw error;
    }
  }
}
