import { spawn, type ChildProcess } from 'node:child_process';
import { UserError } from './errors';

/** The output of a finished command. */
export interface Output {
  stdout: string;
  stderr: string;
}

export interface ExecOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Called with each complete line of stderr, for progress. */
  onStderrLine?: (line: string) => void;
  /** Called with each complete line of stdout. */
  onStdoutLine?: (line: string) => void;
  /** After this time the command is killed and fails with a CommandTimeoutError. Default: no limit. */
  timeoutMs?: number | undefined;
  /** Ends the command with SIGTERM. */
  signal?: AbortSignal | undefined;
}

/** A command ended with an exit code other than 0, or could not be started. */
export class CommandError extends UserError {
  constructor(
    readonly command: string,
    readonly exitCode: number | null,
    readonly output: Output,
    detail: string,
  ) {
    super(`${command}: ${detail}`);
  }
}

/** A command did not end before its timeout. */
export class CommandTimeoutError extends CommandError {}

const running = new Set<ChildProcess>();
let ending = false;

/** Ends all running commands and prevents new ones, after an interrupt. */
export function stopCommands(): void {
  ending = true;
  for (const child of running) child.kill('SIGTERM');
}

/** Lets stopCommands end a program that was started elsewhere. */
export function endWithCommands(child: ChildProcess): void {
  running.add(child);
  child.once('close', () => running.delete(child));
}

/**
 * Runs a command to its end and returns its output.
 * @throws CommandError if it fails, with the last lines of its output
 */
export async function exec(command: string, args: readonly string[], options: ExecOptions = {}): Promise<Output> {
  if (ending) throw new Error(`${command} was not started, because this command is stopping`);
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: options.signal,
    });
    const { timeoutMs } = options;
    let late: string | undefined;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            if (child.kill('SIGKILL')) late = `did not end within ${timeoutMs / 1000} s`;
          }, timeoutMs);
    const output: Output = { stdout: '', stderr: '' };
    const stdout = splitLines(options.onStdoutLine);
    const stderr = splitLines(options.onStderrLine);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output.stdout += text;
      stdout(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output.stderr += text;
      stderr(text);
    });
    endWithCommands(child);
    child.once('close', () => clearTimeout(timer));
    child.once('error', (error) => reject(new CommandError(command, null, output, error.message)));
    child.once('close', (code, signal) => {
      if (code === 0) return resolve(output);
      const lastLines = (output.stderr.trim() === '' ? output.stdout : output.stderr)
        .trim()
        .split('\n')
        .slice(-8)
        .join('\n');
      const how = late ?? (code === null ? `killed by ${signal}` : `exit code ${code}`);
      const detail = lastLines === '' ? how : `${how}\n${lastLines}`;
      reject(new (late === undefined ? CommandError : CommandTimeoutError)(command, code, output, detail));
    });
  });
}

/** Returns a function that takes chunks of text and calls back with complete lines. */
export function splitLines(onLine: ((line: string) => void) | undefined): (chunk: string) => void {
  let rest = '';
  return (chunk) => {
    if (onLine === undefined) return;
    const lines = (rest + chunk).split(/\r?\n|\r/);
    rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') onLine(line);
  };
}
