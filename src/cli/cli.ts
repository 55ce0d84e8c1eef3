import { parseArgs, type ParseArgsConfig } from 'node:util';
import { nearest } from '../core/nearest';
import { formatUserError, PartialFailureError, UsageError, UserError } from '../core/errors';
import { escapeControls } from '../core/format';

/** Exit codes of every command. */
export const EXIT = { ok: 0, failed: 1, usage: 2, incomplete: 3, interrupted: 130 } as const;

type Options = NonNullable<ParseArgsConfig['options']>;

/** Parses the flags in `options`; any other argument is an error that names it. */
export function parseFlags<const T extends Options>(argv: readonly string[], options: T) {
  return parseFlagsAndArguments(argv, options, 0).flags;
}

/**
 * Like parseFlags, with at most `most` positional arguments.
 * @param names of the positional arguments as in the help, for a hint to users who write one as a flag
 */
export function parseFlagsAndArguments<const T extends Options>(
  argv: readonly string[],
  options: T,
  most: number,
  names: readonly string[] = [],
) {
  refuseLostFlags(argv, Object.keys(options));
  const args = argv.length === 1 && argv[0] === 'help' ? ['--help'] : [...argv];
  const known = 'help' in options ? { ...options, help: { ...options['help'], short: 'h' } } : options;
  try {
    const { values, positionals } = parseArgs({ args, options: known, allowPositionals: most > 0, strict: true });
    const extra = positionals[most];
    if (extra !== undefined) throw new Error(`Unexpected argument '${extra}'`);
    refuseEmptyValues(values);
    return { flags: values, positionals };
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    const { code, message } = cause as Error & { code?: string };
    if (code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') throw wrongValue(message, cause);
    throw new UsageError(message.split('. ')[0] ?? 'bad arguments', {
      hint: hintFor(message, argv, Object.keys(options), names),
      cause,
    });
  }
}

/** @param message Node's: "Unknown option '--x'. ...", "Unexpected argument 'x'. ..." */
function hintFor(message: string, argv: readonly string[], flags: readonly string[], names: readonly string[]): string {
  const all = `flags: ${flags.map((name) => `--${name}`).join(' ')}`;
  const argument = /^Unexpected argument '(.*?)'(\. |$)/.exec(message)?.[1];
  if (argument !== undefined) {
    const flag = flagFor(argument, argv, flags);
    // npm keeps a flag that is not after "--", and passes on only the value of the flag.
    const lost = 'write flags as in "npm run NAME -- --FLAG"';
    return flag === undefined ? `${lost}; ${all}` : `did you mean --${flag} ${argument}? ${lost}`;
  }
  const unknown = /'--([\w-]+)/.exec(message)?.[1];
  if (unknown === undefined) return all;
  const name = names.find((one) => one.toLowerCase() === unknown);
  if (name !== undefined) return `${name} is not a flag: write ${getValue(unknown, argv) ?? name} without --${unknown}`;
  const near = nearest(unknown, flags);
  return near === undefined ? all : `did you mean --${near}?`;
}

/** The flags that an argument may be the value of, by its form. */
const MEANT: readonly [RegExp, readonly string[]][] = [
  [/^s3:\/\//, ['bucket', 'from', 'to']],
  [/^https?:\/\//, ['triton']],
  [/^[./~]|\/$/, ['out', 'repo']],
  [/^\w[\w.,-]*$/, ['stack', 'from', 'to', 'models']],
];

/** The flag that was probably omitted: the first matching flag that the command has and that was not given. */
function flagFor(argument: string, argv: readonly string[], flags: readonly string[]): string | undefined {
  const meant = MEANT.find(([look]) => look.test(argument))?.[1] ?? [];
  return meant.find((flag) => flags.includes(flag) && !argv.some((one) => isFlag(one, flag)));
}

const isFlag = (text: string, name: string): boolean => text === `--${name}` || text.startsWith(`--${name}=`);

/** The value of a flag: after its `=`, or the next argument. */
function getValue(name: string, argv: readonly string[]): string | undefined {
  const at = argv.findIndex((one) => isFlag(one, name));
  const [, value] = /=(.+)/s.exec(argv[at] ?? '') ?? [];
  const next = argv[at + 1];
  return value ?? (next?.startsWith('-') === true ? undefined : next);
}

/**
 * Flags of npm itself, which are not checked because npm's own settings may set their variables. --dry-run is checked
 * although npm has it, because losing it is too dangerous.
 */
const FLAGS_OF_NPM = new Set(['all', 'force', 'json', 'only', 'version', 'yes']);

/** Rejects flags that are not after "--": npm does not pass them on, it only sets environment variables for them. */
function refuseLostFlags(argv: readonly string[], names: readonly string[]): void {
  for (const name of names) {
    const kept = process.env[`npm_config_${name.replaceAll('-', '_')}`] ?? '';
    const given = argv.some((one) => isFlag(one, name));
    if (FLAGS_OF_NPM.has(name) || ['', 'false'].includes(kept) || given) continue;
    throw new UsageError(`npm took --${name} for itself`, {
      hint: `write "npm run NAME -- --${name}"`,
    });
  }
}

/** An empty value probably comes from an unset variable of a script. Only a message may be empty. */
function refuseEmptyValues(values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) {
    if (name === 'message' || ![value].flat().includes('')) continue;
    throw new UsageError(`--${name} is empty`, { hint: `give --${name} a value, or omit the flag` });
  }
}

/**
 * The error for a flag that lacks its value, or that takes none and has one.
 * @param message Node's: "Option '-o, --out <value>' ..."
 */
function wrongValue(message: string, cause: unknown): UsageError {
  const flag = /--[\w-]+/.exec(message)?.[0] ?? message;
  if (message.includes('does not take an argument')) {
    return new UsageError(`${flag} takes no value`, { hint: `write ${flag} without a value`, cause });
  }
  return new UsageError(`${flag} needs a value`, {
    hint: `write ${flag} VALUE, or ${flag}=-VALUE if the value begins with "-"`,
    cause,
  });
}

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

interface CommandLine<T extends Options> {
  help: string;
  /** Without --help. */
  flags: T;
  /** Number of positional arguments, with their names as in the help. */
  most?: number;
  names?: readonly string[];
}

/** The entry point of a command: prints its help, or runs it. */
export const command =
  <const T extends Options>(
    { help, flags: options, most = 0, names }: CommandLine<T>,
    run: (flags: ReturnType<typeof parseFlags<T>>, positionals: string[]) => number | Promise<number>,
  ) =>
  (argv: readonly string[]): Promise<number> =>
    runCommand(async () => {
      const known = { ...options, help: { type: 'boolean', default: false } } as const;
      const { flags, positionals } = parseFlagsAndArguments(argv, known, most, names);
      if (!('help' in flags && flags.help === true)) return run(flags as never, positionals);
      process.stdout.write(help);
      return EXIT.ok;
    });

function describeError(error: unknown): string {
  if (error instanceof UserError) return `error: ${formatUserError(error)}`;
  return `error: unexpected, please report this: ${error instanceof Error ? error.stack : String(error)}`;
}
