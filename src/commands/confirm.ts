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
 * @param warnings lines that are printed below the list
 * @throws UsageError without a terminal
 */
export async function confirmDeletion(
  keys: readonly string[],
  warnings: readonly string[],
  progress: Progress,
  signal: AbortSignal,
): Promise<boolean> {
  const what = formatCount(keys.length, 'object');
  if (!process.stdin.isTTY) {
    throw new UsageError(
      `${what} would be deleted, but stdin is not a terminal, so the command cannot ask for confirmation`,
      {
        hint: 'list the objects with --dry-run, then confirm with --yes',
      },
    );
  }
  progress.erase();
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise<string>((resolve) => terminal.once('close', () => resolve('no')));
  // While readline reads a line it receives Ctrl-C itself, and closes.
  const interrupted = new Promise<never>((_, reject) => {
    terminal.once('SIGINT', () => reject(new InterruptedError('interrupted')));
  });
  interrupted.catch(() => undefined);
  try {
    process.stderr.write(`${[indentedList(keys), ...warnings].join('\n')}\n`);
    const asked = terminal.question(`Delete ${what} from the bucket permanently? (yes/no) `, { signal });
    return /^y(es)?$/i.test((await Promise.race([asked, closed, interrupted])).trim());
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw new InterruptedError('interrupted');
    throw error;
  } finally {
    terminal.close();
  }
}
