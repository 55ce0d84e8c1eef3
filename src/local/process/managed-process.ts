import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../core/errors';
import { splitLines } from '../../core/exec';
import { paths } from '../../core/paths';

export interface ManagedProcessOptions {
  /** What it is called in messages. */
  name: string;
  command: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** Everything it prints goes here. */
  logFile: string;
  /** A Python, to have the system end the process when we are killed (Linux). */
  python: string;
  /** What the system sends it then; for one that does not heed SIGTERM. */
  deathSignal?: 'SIGTERM' | 'SIGKILL';
  onLine?: (line: string) => void;
}

/** How often a starting server is asked whether it is ready. */
const POLL_MS = 50;

/** Of what it printed, in memory: a server that crashes prints where, and what its models say when it is gone. */
const KEPT_LINES = 40;

const processes = new Set<ManagedProcess>();
let ending = false;

/** For what it printed last to be read, once it has ended. */
const LAST_OUTPUT_MS = 500;

/** What is stopped with all others gets so long to end before it is killed. */
const STOP_ALL_GRACE_MS = 5000;

/** Stops every process there still is and lets no new one start: what was under way when we were interrupted. */
export async function stopAll(): Promise<void> {
  ending = true;
  await Promise.all([...processes].map((one) => one.stop(STOP_ALL_GRACE_MS)));
}

/** Whether a process that was started runs. */
export const anyProcessRuns = (): boolean => processes.size > 0;

/** Ends everything at once; for a second Ctrl-C. */
export function killAll(): void {
  ending = true;
  for (const one of processes) one.killGroup();
}

/**
 * A server that lives no longer than we do: it has a process group of its own, so that Ctrl-C in the terminal reaches
 * us alone and we end things in order, and the system ends it if we are killed.
 */
export class ManagedProcess {
  readonly name: string;
  readonly logFile: string;
  private readonly child: ChildProcess;
  private readonly log: WriteStream;
  private readonly tail: string[] = [];
  /** Settles when it has ended; says how. */
  readonly ended: Promise<string>;
  private endedBecause: string | undefined;

  constructor(options: ManagedProcessOptions) {
    if (ending) throw new Error(`${options.name} is not started: we are ending`);
    this.name = options.name;
    this.logFile = options.logFile;
    mkdirSync(dirname(options.logFile), { recursive: true });
    this.log = createWriteStream(options.logFile);
    // A full disk must not end us: the server's last lines are kept in memory too.
    this.log.on('error', () => undefined);
    this.child = spawn(
      options.python,
      [paths.withParent, String(process.pid), options.deathSignal ?? 'SIGTERM', options.command, ...options.args],
      {
        cwd: options.cwd,
        env: options.env,
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    for (const stream of [this.child.stdout, this.child.stderr]) {
      const lines = splitLines((line) => {
        this.tail.push(line);
        if (this.tail.length > KEPT_LINES) this.tail.shift();
        options.onLine?.(line);
      });
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.log.write(text);
        lines(text);
      });
    }
    processes.add(this);
    this.ended = new Promise((resolve) => {
      const end = (why: string): void => {
        this.endedBecause = why;
        processes.delete(this);
        this.log.end();
        resolve(why);
      };
      this.child.once('error', (error) => end(error.message));
      this.child.once('exit', (code, signal) => {
        const endNow = (): void => end(signal === null ? `exit code ${code}` : `signal ${signal}`);
        this.child.once('close', endNow);
        // A child of its own that outlives it, as one of a crashed tritonserver may, keeps its output open.
        setTimeout(endNow, LAST_OUTPUT_MS).unref();
      });
    });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** The last lines it printed. */
  lastLines(count = 8): string {
    return this.tail.slice(-count).join('\n');
  }

  /**
   * Waits until `answers` says yes. An answer counts only while the process lives: on a port that somebody else took
   * meanwhile, it is theirs.
   * @throws UserError with its last lines when it ends before or the time is up; `stop` has been called then
   */
  async untilReady(answers: () => Promise<boolean>, timeoutMs: number, stop: () => Promise<void>): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!(await answers()) || this.endedBecause !== undefined) {
      if (this.endedBecause !== undefined || Date.now() > deadline) {
        const how =
          this.endedBecause === undefined
            ? `was not ready after ${timeoutMs / 1000} s`
            : `ended (${this.endedBecause})`;
        const said = this.lastLines();
        await stop();
        throw new UserError(`${this.name} ${how}:\n${said}`, { hint: `its log is ${this.logFile}` });
      }
      await sleep(POLL_MS);
    }
  }

  /** Asks it to end, and after `graceMs` makes it; its children too. */
  async stop(graceMs: number): Promise<void> {
    if (this.endedBecause === undefined) {
      this.child.kill('SIGTERM');
      const grace = new AbortController();
      await Promise.race([this.ended, sleep(graceMs, undefined, { signal: grace.signal }).catch(() => undefined)]);
      grace.abort();
    }
    this.killGroup();
    await this.ended;
  }

  /** Ends the whole process group at once. */
  killGroup(): void {
    if (this.child.pid === undefined) return;
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // Nothing of it is left.
    }
  }
}
