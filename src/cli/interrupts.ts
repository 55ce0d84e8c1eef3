import { EXIT } from './cli';
import { UserError } from '../core/errors';

/**
 * Signals within this time after the first one count as the same. One Ctrl-C may arrive twice, from the terminal and
 * from npm, which may be slow on a busy machine.
 */
const SAME_SIGNAL_MS = 1000;

/** The command was interrupted by Ctrl-C, SIGTERM or SIGHUP. */
export class InterruptedError extends UserError {
  override readonly name = 'InterruptedError';
}

export interface InterruptWatch {
  first: () => void;
  /** Called for each later signal. */
  again: () => void;
}

/** Calls back on Ctrl-C (SIGINT), SIGTERM and SIGHUP. Returns the function that ends the watch. */
export function watchInterrupts({ first, again }: InterruptWatch): () => void {
  let firstAt: number | undefined;
  const onSignal = (): void => {
    const now = Date.now();
    if (firstAt !== undefined) {
      if (now - firstAt >= SAME_SIGNAL_MS) again();
      return;
    }
    firstAt = now;
    first();
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return () => {
    for (const signal of signals) process.off(signal, onSignal);
  };
}

/**
 * Runs `work` with a signal that is aborted on the first Ctrl-C, so that it can clean up. The second Ctrl-C exits at
 * once.
 */
export async function withInterrupts<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stopWatching = watchInterrupts({
    first: () => {
      process.stderr.write('\ninterrupted: cleaning up; interrupt again to exit at once\n');
      controller.abort(new InterruptedError('interrupted'));
    },
    again: () => process.exit(EXIT.interrupted),
  });
  try {
    return await work(controller.signal);
  } finally {
    stopWatching();
  }
}
