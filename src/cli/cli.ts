import { formatUserError, PartialFailureError, UsageError, UserError } from '../core/errors';
import { escapeControls } from '../core/format';

/** Exit codes of every command. */
export const EXIT = { ok: 0, failed: 1, usage: 2, incomplete: 3, interrupted: 130 } as const;

/** `a,b` -> ['a', 'b']; an empty name is an error. */
export function parseList(flag: string, text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => name.trim());
  if (names.includes(''))
    throw new UsageError(`--${flag} "${text}" has an empty name`, {
      hint: `separate the names with one comma: --${flag} a,b`,
    });
  return names;
}

/** The selection of models from the flags --models and --exclude. */
export function parseSelection(flags: { models?: string; exclude?: string }) {
  return { models: parseList('models', flags.models), exclude: parseList('exclude', flags.exclude) };
}

/** A whole number within bounds. */
export function parseInteger(flag: string, text: string, minimum: number, maximum: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < minimum || value > maximum) {
    throw new UsageError(`--${flag} ${text}: must be a whole number from ${minimum} to ${maximum}`);
  }
  return value;
}

/** A time in minutes: `90s`, `5m`, `1h`, `0`. */
export function parseMinutes(flag: string, text: string): number {
  const [, number, unit] = /^(\d+)([smh])$/.exec(text) ?? [];
  const minutes = Number(number ?? NaN) * (unit === 's' ? 1 / 60 : unit === 'm' ? 1 : 60);
  if (text === '0') return 0;
  if (minutes >= 0.5 && minutes <= 24 * 60) return minutes;
  throw new UsageError(`--${flag} ${text}: must be 0, or a time from 30s to 24h, such as 90s, 5m or 1h`);
}

/**
 * Runs a command, prints its error and returns the exit code. A UserError is printed without a stack trace; any other
 * error is a bug and is printed with one.
 */
export async function runCommand(command: () => Promise<number>): Promise<number> {
  try {
    return await command();
  } catch (error) {
    process.stderr.write(`${escapeControls(describeError(error))}\n`);
    if (error instanceof UsageError) return EXIT.usage;
    return error instanceof PartialFailureError ? EXIT.incomplete : EXIT.failed;
  }
}

function describeError(error: unknown): string {
  if (error instanceof UserError) return `error: ${formatUserError(error)}`;
  return `error: unexpected, please report this: ${error instanceof Error ? error.stack : String(error)}`;
}
