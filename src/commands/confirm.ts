import { UsageError } from '../core/errors';
import { firstLines, formatCount } from '../core/format';
import { InterruptedError } from '../cli/interrupts';
import type { Progress } from '../cli/progress';

export const indentedList = (keys: readonly string[]): string =>
  firstLines(keys)
    .map((line) => `  ${line}`)
    .join('\n');

/**
 * Asks on the terminal whether these objects should be deleted.
 * @throws UsageError without a terminal
 */
export async function confirmDeletion(
  keys: readonly string[],
  progress: Progress,
  signal: AbortSignal,
): Promise<boolean> {
  const question = `Delete ${formatCount(keys.length, 'object')} from the bucket permanently?`;
  return isConfirmed(question, 'list the objects with --dry-run, then confirm with --yes', signal, () => {
    progress.erase();
    process.stderr.write(`${indentedList(keys)}\n`);
  });
}

/**
 * Asks a question on the terminal that can be answered with yes.
 * @param hint the next step if there is no terminal
 * @param before prints what the user needs to know
 * @throws UsageError without a terminal
 */
export async function isConfirmed(
  question: string,
  hint: string,
  signal?: AbortSignal,
  before?: () => void,
): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new UsageError(`stdin is not a terminal, so the command cannot ask: ${question}`, { hint });
  }
  before?.();
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('no')));
  // While readline reads a line it receives Ctrl-C itself, and closes.
  const interrupted = new Promise<never>((_, reject) => {
    terminal.once('SIGINT', () => reject(new InterruptedError('interrupted')));
  });
  interrupted.catch(() => undefined);
  try {
    const asked = terminal.question(`${question} (yes/no) `, signal === undefined ? {} : { signal });
    return /^y(es)?$/i.test((await Promise.race([asked, closed, interrupted])).trim());
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw new InterruptedError('interrupted');
    throw error;
  } finally {
    terminal.close();
  }
}
