import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../../src/core/errors';
import { exec } from '../../../src/core/exec';
import { paths } from '../../../src/core/paths';

const PROGRAM = join(paths.tools, 'bench', 'sync', 'measure.py');

/** What one run of a program took, from its start to its end. */
export interface Sample {
  seconds: number;
  /** Of all its threads, in the program and in the system for it. */
  cpuSeconds: number;
  /** Largest resident set of the process or of one that it started. */
  peakBytes: number;
}

export interface Command {
  /** Program by its path, then its arguments. */
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
 * Runs a command to its end.
 * @param logFile what it prints goes here
 * @throws UserError with its last lines when it fails
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
