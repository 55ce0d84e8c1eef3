import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;

/**
 * Waits until `check` says yes; an error of it counts as no.
 * @param timeoutMs default: a minute, which a busy machine needs
 * @throws with the last error when the time is up
 */
export async function until(what: string, check: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    let last: unknown;
    try {
      if (await check()) return;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`it did not come to this: ${what}`, { cause: last });
    await sleep(POLL_MS);
  }
}

const CONFLICT = 409;

/** Reads and writes an object again as long as somebody else has changed it in between. */
export async function retriedOnConflict<T>(change: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await change();
    } catch (error) {
      if ((error as { code?: number }).code !== CONFLICT) throw error;
    }
  }
}
