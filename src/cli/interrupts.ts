import { EXIT } from './cli';
import { UserError } from '../core/errors';

/**
 * What comes so soon after the first one is the same: one Ctrl-C may come twice, from the terminal and passed on by npm,
 * which on a busy machine takes its time.
 */
const SAME_SIGNAL_MS = 1000;

/** Ctrl-C or SIGTERM. */
export class Interrupted extends UserError {
  override readonly name = 'Interrupted';
}

export interface InterruptWatch {
  first: () => void;
  /** Called for each one after it. */
  again: () => void;
}

/** Calls back at Ctrl-C and what else asks us to end; gives the function that ends the watch. */
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
 * Runs `work` with a signal that is aborted at the first Ctrl-C, for it to end in order; the second one ends the
 * process at once.
 */
export async function withInterrupts<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stopWatching = watchInterrupts({
    first: () => {
      process.stderr.write('\ninterrupted: ending in order; once more ends at once\n');
      controller.abort(new Interrupted('interrupted'));
    },
    again: () => process.exit(EXIT.interrupted),
  });
  try {
    return await work(controller.signal);
  } finally {
    stopWatching();
  }
}
