import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { exec } from '../../../src/core/exec';
import { paths } from '../../../src/core/paths';

const PROGRAM = join(paths.tools, 'bench', 'sync', 'measure.py');

/** Resources that one run of a program used. */
export interface Sample {
  seconds: number;
  /** User and system time of all threads. */
  cpuSeconds: number;
  /** Largest resident set of the process or of one of its child processes. */
  peakBytes: number;
}

export interface Command {
  /** Path of the program and its arguments. */
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
}

interface Measured {
  exitCode: number;
  seconds: number;
  userSeconds: number;
  systemSeconds: number;
  peakBytes: number;
}

/**
 * Runs a command until it exits.
 * @param logFile file for the output of the command
 * @throws UserError with the last lines of the output if the command fails
 */
export async function measure(python: string, command: Command, logFile: string): Promise<Sample> {
  const { stdout } = await exec(python, ['-I', '-S', PROGRAM, logFile, ...command.argv], { env: command.env });
  const { exitCode, seconds, userSeconds, systemSeconds, peakBytes } = JSON.parse(stdout) as Measured;
  if (exitCode !== 0) {
    const said = readFileSync(logFile, 'utf8').trim().split('\n').slice(-8).join('\n');
    throw new UserError(`${command.argv.join(' ')}: exit code ${exitCode}\n${said}`);
  }
  return { seconds, cpuSeconds: userSeconds + systemSeconds, peakBytes };
}
