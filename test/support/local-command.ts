import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { localDirectory } from '../../src/local/stack';
import { paths } from '../../src/core/paths';
import { addingModel, writeRepository } from './repository';
import { runCommandLine, type Finished } from './run';
import type { Scratch } from './scratch';
import { until } from './until';

/** What `npm run local` may take on a busy machine. */
const START_MS = 180_000;

const FREE_PORTS = ['--http-port', '0', '--grpc-port', '0', '--metrics-port', '0', '--s3-port', '0'];

/** `npm run local` in the background. */
export interface RunningLocal {
  child: ChildProcess;
  /** All that it wrote until now. */
  said: () => string;
  /** Its exit code; null when a signal ended it. */
  ended: Promise<number | null>;
}

/** `npm run local` of a repository with the model `adds`, and what it has left on this machine. */
export class LocalCommand {
  readonly repository: string;
  /** Everything that it starts has this folder on its command line. */
  readonly directory: string;
  private readonly pids: number[] = [];

  constructor(private readonly scratch: Scratch) {
    this.repository = writeRepository(join(scratch.directory, 'repository'), addingModel('adds', { 1: 10 }));
    this.directory = this.directoryOf(this.repository);
  }

  /** Where the stack of a repository is, removed with the scratch folder. */
  directoryOf(repository: string): string {
    const directory = localDirectory(repository);
    this.scratch.defer(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  }

  /** Runs it on free ports to its end. */
  run(flags: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> {
    return runCommandLine('local', ['--repo', this.repository, ...FREE_PORTS, ...flags], env);
  }

  /** Starts it on free ports; variables of the environment may come first. */
  start(...given: [NodeJS.ProcessEnv, ...string[]] | string[]): RunningLocal {
    const [first, ...others] = given;
    const [env, flags] = typeof first === 'object' ? [first, others as string[]] : [{}, given as string[]];
    const args = [join(paths.scripts, 'run.mjs'), 'local', '--repo', this.repository, ...FREE_PORTS, ...flags];
    const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    if (child.pid !== undefined) this.pids.push(child.pid);
    this.scratch.defer(() => void child.kill('SIGKILL'));
    let text = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (more: string) => (text += more));
    return { child, said: () => text, ended: new Promise((resolve) => child.once('close', resolve)) };
  }

  /** Command lines of its processes. */
  processes(): string[] {
    return processes().filter((command) => command.includes(this.directory));
  }

  /** Fails where a process, or something in a folder of the system, is left. */
  expectNothingLeft(): void {
    expect(this.processes()).toEqual([]);
    const ours = this.pids.map((pid) => `triton-serving-${pid}-`);
    const shared = readdirSync('/dev/shm');
    expect(shared.filter((name) => ours.some((prefix) => name.startsWith(prefix)))).toEqual([]);
  }
}

/** Waits for a sign of `npm run local`; fails at once when it has ended instead. */
export async function untilLocal({ child, said }: RunningLocal, condition: () => boolean): Promise<void> {
  await until('it came so far', () => condition() || child.exitCode !== null, START_MS);
  if (!condition()) throw new Error(`it ended with ${child.exitCode}:\n${said()}`);
}

/** Waits until it says that everything is there. */
export const untilUp = (local: RunningLocal): Promise<void> =>
  untilLocal(local, () => local.said().includes('Ctrl-C stops everything'));

/** The address in the table that it prints. */
export function addressOf({ said }: RunningLocal, what: string): string {
  return new RegExp(`${what}\\s+(\\S+)`).exec(said())?.[1] ?? '';
}

/** Command lines of all processes. */
function processes(): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return ''; // Gone meanwhile.
      }
    });
}
