import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../core/errors';
import { splitLines } from '../../core/exec';
import { paths } from '../../core/paths';

export interface ManagedProcessOptions {
  /** Name of the process in messages. */
  name: string;
  command: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  /** File for all output of the process. */
  logFile: string;
  /** Python interpreter, which has the system end the process if we are killed (Linux). */
  python: string;
  /** Signal that the system then sends. SIGKILL is for a process that ignores SIGTERM. */
  deathSignal?: 'SIGTERM' | 'SIGKILL';
}

/** Interval of readiness checks. */
const POLL_MS = 50;

/** Output lines kept in memory: enough for a crashed server's stack trace and the models' messages after it. */
const KEPT_LINES = 40;

const processes = new Set<ManagedProcess>();
let ending = false;

/** Time to read the last output after the process has ended. */
const LAST_OUTPUT_MS = 500;

/** Time for each process to end in stopAll before it is killed. */
const STOP_ALL_GRACE_MS = 5000;

/** Stops every running process and prevents new ones from starting, because an interrupt may come during a start. */
export async function stopAll(): Promise<void> {
  ending = true;
  await Promise.all([...processes].map((one) => one.stop(STOP_ALL_GRACE_MS)));
}

/** Whether any started process is still running. */
export const anyProcessRuns = (): boolean => processes.size > 0;

/** Kills all processes immediately, for a second Ctrl-C. */
export function killAll(): void {
  ending = true;
  for (const one of processes) one.killGroup();
}

/**
 * A server that ends no later than this process. It has its own process group, so that Ctrl-C in the terminal reaches
 * only us and we can stop servers in order. The system ends the server if we are killed.
 */
export class ManagedProcess {
  readonly name: string;
  readonly logFile: string;
  private readonly child: ChildProcess;
  private readonly log: WriteStream;
  private readonly tail: string[] = [];
  /** Resolves with the reason when the process has ended. */
  readonly ended: Promise<string>;
  private endedBecause: string | undefined;

  constructor(options: ManagedProcessOptions) {
    if (ending) throw new Error(`${options.name} is not started, because this process is ending`);
    this.name = options.name;
    this.logFile = options.logFile;
    mkdirSync(dirname(options.logFile), { recursive: true });
    this.log = createWriteStream(options.logFile);
    // A full disk must not end us. The server's last lines are in memory too.
    this.log.on('error', () => undefined);
    this.child = spawn(
      options.python,
      [paths.withParent, String(process.pid), options.deathSignal ?? 'SIGTERM', options.command, ...options.args],
      {
        env: options.env,
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    for (const stream of [this.child.stdout, this.child.stderr]) {
      const lines = splitLines((line) => {
        this.tail.push(line);
        if (this.tail.length > KEPT_LINES) this.tail.shift();
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
        // Children that outlive the process keep its output open, for example after a crash of tritonserver.
        setTimeout(endNow, LAST_OUTPUT_MS).unref();
      });
    });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  private isRunning(): boolean {
    return this.endedBecause === undefined;
  }

  /** The last output lines. */
  lastLines(count = 8): string {
    return this.tail.slice(-count).join('\n');
  }

  /**
   * Waits until `answers` returns true. An answer counts only while the process runs, because otherwise another process
   * may have taken the port.
   * @throws UserError with the last lines if the process ends or time runs out; `stop` has been called before
   */
  async untilReady(isHealthy: () => Promise<boolean>, timeoutMs: number, stop: () => Promise<void>): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!(await isHealthy()) || this.endedBecause !== undefined) {
      if (this.endedBecause !== undefined || Date.now() > deadline) {
        const how =
          this.endedBecause === undefined
            ? `was not ready after ${timeoutMs / 1000} s`
            : `ended (${this.endedBecause})`;
        const lines = this.lastLines();
        await stop();
        throw new UserError(`${this.name} ${how}:\n${lines}`, { hint: `read the log: ${this.logFile}` });
      }
      await sleep(POLL_MS);
    }
  }

  /** Sends SIGTERM, and kills the process and its children after `graceMs`, or as soon as `hasStopped`. */
  async stop(graceMs: number, hasStopped = (): boolean => false): Promise<void> {
    const deadline = performance.now() + graceMs;
    if (this.isRunning()) this.child.kill('SIGTERM');
    while (this.isRunning() && performance.now() < deadline && !hasStopped()) {
      await Promise.race([this.ended, sleep(POLL_MS)]);
    }
    this.killGroup();
    await this.ended;
  }

  /** Kills the whole process group immediately. */
  killGroup(): void {
    if (this.child.pid === undefined) return;
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // The process group has ended.
    }
  }
}
