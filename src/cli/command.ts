import { isAbsolute, relative } from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import { UsageError } from '../core/errors';
import { EXIT, runCommand } from './cli';

/** Lines of a help are not longer than this. */
const HELP_COLUMNS = 120;

/** A flag of a command. One without `value` is true if it is given, and false otherwise. */
interface Flag {
  help: string;
  /** What the value is, for the help, such as FILE. */
  value?: string;
  default?: string | readonly string[];
  /** Whether the flag may be repeated. */
  multiple?: boolean;
  /** The same flag in one letter. */
  short?: string;
}

/** The flags of a command by their names. */
export type Flags = Readonly<Record<string, Flag>>;

/** The values of flags on a command line. */
export type ValuesOf<T extends Flags> = { [N in keyof T]: ValueOf<T[N]> };

type ValueOf<F extends Flag> = F extends { value: string }
  ? (F extends { multiple: true } ? string[] : string) | (F extends { default: unknown } ? never : undefined)
  : boolean;

interface CommandLine<T extends Flags> {
  /** How the command is started: `npm run validate`. */
  name: string;
  /** What it does. */
  about: string;
  flags: T;
  /** Positional arguments as commander writes them, such as `[INPUT...]` -> help. */
  arguments?: Readonly<Record<string, string>>;
  /** The end of the help: explanations, examples, exit codes. */
  notes?: string;
}

/** The entry point of a command: prints its help, or runs it. */
export const command =
  <const T extends Flags>(
    line: CommandLine<T>,
    run: (flags: ValuesOf<T>, positionals: string[]) => number | Promise<number>,
  ) =>
  (argv: readonly string[]): Promise<number> =>
    runCommand(async () => {
      const parsed = declare(line);
      try {
        refuseLostFlags(argv, Object.keys(line.flags));
        parsed.parse(argv, { from: 'user' });
      } catch (error) {
        if (!(error instanceof CommanderError)) throw error;
        if (error.code === 'commander.helpDisplayed') return EXIT.ok;
        throw toUsageError(error, parsed);
      }
      const given = parsed.opts<Record<string, unknown>>();
      refuseEmptyValues(given);
      const values = Object.entries(line.flags).map(([name, { value, default: otherwise }]) => [
        name,
        given[name] ?? otherwise ?? (value === undefined ? false : undefined),
      ]);
      return run(Object.fromEntries(values) as ValuesOf<T>, parsed.args);
    });

/** An option whose name in the parsed values is that on the command line. A name such as no-ask negates no other flag. */
class NamedOption extends Option {
  override negate = false;

  override attributeName(): string {
    return this.name();
  }
}

/** Declares a command to commander, which makes the help, suggests names for typing errors, and parses. */
function declare({ name, about, flags, arguments: positionals = {}, notes = '' }: CommandLine<Flags>): Command {
  const declared = new Command(name.startsWith('npm') ? `${name} --` : name)
    .description(about)
    .addHelpText('after', `\n${notes}`)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => process.stdout.write(text),
      writeErr: () => undefined, // runCommand prints the error.
      getOutHelpWidth: () => Math.min(process.stdout.columns || HELP_COLUMNS, HELP_COLUMNS),
    });
  for (const [positional, help] of Object.entries(positionals)) declared.argument(positional, help);
  for (const [flag, { help, value, default: otherwise, multiple, short }] of Object.entries(flags)) {
    const letter = short === undefined ? '' : `-${short}, `;
    const shown =
      typeof otherwise === 'string' ? ` (default: ${isAbsolute(otherwise) ? relative('', otherwise) : otherwise})` : '';
    const option = new NamedOption(`${letter}--${flag}${value === undefined ? '' : ` <${value}>`}`, help + shown);
    if (multiple === true)
      option.argParser((text: string, before: readonly string[] | undefined) => [...(before ?? []), text]);
    declared.addOption(option);
  }
  return declared;
}

/** @param error its message is "error: TEXT", and perhaps "(Did you mean --x?)" in the next line */
function toUsageError(error: CommanderError, { args, registeredArguments }: Command): UsageError {
  if (error.code === 'commander.excessArguments') {
    return new UsageError(`unexpected argument: ${args.slice(registeredArguments.length).join(' ')}`, {
      hint: 'write flags as in "npm run NAME -- --FLAG"',
      cause: error,
    });
  }
  const [text = '', suggestion] = error.message.replace(/^error: /, '').split('\n');
  const hint = suggestion?.replace(/^\(D(.*)\)$/, 'd$1') ?? '--help lists the flags';
  return new UsageError(text, { hint, cause: error });
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
    const given = argv.some((one) => one === `--${name}` || one.startsWith(`--${name}=`));
    if (FLAGS_OF_NPM.has(name) || ['', 'false'].includes(kept) || given) continue;
    throw new UsageError(`npm took --${name} for itself`, {
      hint: `write "npm run NAME -- --${name}"`,
    });
  }
}

/**
 * An empty value, and a flag that took the next flag as its value, probably come from an unset variable of a script. Only a
 * message may be empty.
 */
function refuseEmptyValues(values: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(values)) {
    if ([value].flat().some((one) => String(one).startsWith('--'))) {
      throw new UsageError(`--${name} needs a value`, { hint: `write --${name} VALUE` });
    }
    if (name === 'message' || ![value].flat().includes('')) continue;
    throw new UsageError(`--${name} is empty`, { hint: `give --${name} a value, or omit the flag` });
  }
}
