import { parseArgs, type ParseArgsConfig } from 'node:util';
import { formatProblem, UsageError, UserError } from './errors';

/** Exit codes of every command. */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

type Options = NonNullable<ParseArgsConfig['options']>;

/** Reads the flags in `options`; anything else is an error that names it. */
export function parseFlags<const T extends Options>(argv: readonly string[], options: T) {
  return parseFlagsAndArguments(argv, options, 0).flags;
}

/** As parseFlags, with at most `most` arguments that are no flags. */
export function parseFlagsAndArguments<const T extends Options>(argv: readonly string[], options: T, most: number) {
  try {
    const { values, positionals } = parseArgs({ args: [...argv], options, allowPositionals: most > 0, strict: true });
    if (positionals.length > most) throw new Error(`Unexpected argument '${positionals[most]}'`);
    return { flags: values, positionals };
  } catch (cause) {
    const known = Object.keys(options).map((name) => `--${name}`);
    throw new UsageError((cause as Error).message.split('. ')[0] ?? 'bad arguments', {
      hint: `flags: ${known.join(' ')}`,
      cause,
    });
  }
}

/** `a,b` -> ['a', 'b']; an empty name is an error. */
export function parseList(flag: string, text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => name.trim());
  if (names.includes(''))
    throw new UsageError(`--${flag} "${text}" has an empty name`, { hint: `write --${flag} a,b` });
  return names;
}

/** A whole number within bounds. */
export function parseInteger(flag: string, text: string, minimum: number, maximum: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < minimum || value > maximum) {
    throw new UsageError(`--${flag} ${text}: a whole number from ${minimum} to ${maximum} is needed`);
  }
  return value;
}

/**
 * The outermost frame of a command: prints what went wrong and gives the exit code. What the user can act on is
 * printed without a stack trace; anything else is a bug and comes with one.
 */
export async function runCommand(command: () => Promise<number>): Promise<number> {
  try {
    return await command();
  } catch (error) {
    process.stderr.write(`${describeError(error)}\n`);
    return error instanceof UsageError ? EXIT.usage : EXIT.failed;
  }
}

function describeError(error: unknown): string {
  if (!(error instanceof UserError)) {
    return `error: unexpected, please report this: ${error instanceof Error ? error.stack : String(error)}`;
  }
  const lines = [`error: ${error.message}`, ...error.problems.map((problem) => `  ${formatProblem(problem)}`)];
  if (error.hint !== undefined) lines.push(`  -> ${error.hint}`);
  return lines.join('\n');
}
