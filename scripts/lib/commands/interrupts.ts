import { EXIT } from '../cli';
import { UserError } from '../errors';

/** One Ctrl-C may come twice at once: from the terminal, and passed on by npm. */
const SAME_SIGNAL_MS = 300;

/** Ctrl-C or SIGTERM. */
export class Interrupted extends UserError {
  override readonly name = 'Interrupted';
}

/**
 * Runs `work` with a signal that is aborted at the first Ctrl-C, for it to end in order; the second one ends the
 * process at once.
 */
export async function withInterrupts<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let first: number | undefined;
  const onSignal = (): void => {
    const now = Date.now();
    if (first !== undefined && now - first < SAME_SIGNAL_MS) return;
    if (first !== undefined) process.exit(EXIT.interrupted);
    first = now;
    process.stderr.write('\ninterrupted: ending in order; once more ends at once\n');
    controller.abort(new Interrupted('interrupted'));
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
}
