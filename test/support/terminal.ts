import { spawn, type ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './wait-for';

/** Long, because a first start creates the Python environment. */
const TIMEOUT_MS = 400_000;

/** Time for processes to end after the shell was closed. */
const GRACE_MS = 10_000;

/** A shell that runs blocks of commands one after the other, like a terminal. */
export class Terminal {
  private readonly shell: ChildProcess;
  private readonly ended: Promise<number | null>;
  private output = '';
  private blocks = 0;

  /** @param scratch a folder for the files of the blocks */
  constructor(
    private readonly name: string,
    directory: string,
    private readonly scratch: string,
  ) {
    // A separate process group, to which Ctrl-C is sent.
    this.shell = spawn('bash', [], { cwd: directory, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    this.ended = new Promise((resolve) => this.shell.once('close', resolve));
    for (const stream of [this.shell.stdout, this.shell.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.shell.stdin?.write('set -euo pipefail\n');
  }

  /** Runs a block to its end. @returns its output @throws Error if one of its commands fails */
  async run(block: string): Promise<string> {
    const from = this.output.length;
    const end = `-- end of block ${this.blocks + 1}`;
    this.start(`${block}\necho; echo '${end}'`);
    return (await this.until(end)).slice(from);
  }

  /** Starts a block that need not end. */
  start(block: string): void {
    const file = join(this.scratch, `${this.name}-${(this.blocks += 1)}.sh`);
    writeFileSync(file, `${block}\n`);
    // Commands that read stdin must not read the following blocks.
    this.shell.stdin?.write(`. ${file} < /dev/null\n`);
  }

  /** Waits for a text. @returns all output so far */
  async until(text: string): Promise<string> {
    await until(
      `the ${this.name} terminal says "${text}"`,
      () => Promise.resolve(this.output.includes(text) || this.isOver()),
      TIMEOUT_MS,
    );
    if (!this.output.includes(text)) throw new Error(`the ${this.name} terminal ended:\n${this.output}`);
    return this.output;
  }

  /** Sends Ctrl-C and ends the input. @returns exit code of the shell */
  interrupt(): Promise<number | null> {
    this.signal('SIGINT');
    this.shell.stdin?.end();
    return this.ended;
  }

  /** Ends all processes of the shell, as closing a terminal window does. */
  async close(): Promise<void> {
    this.shell.stdin?.end();
    this.signal('SIGHUP');
    const kill = setTimeout(() => this.signal('SIGKILL'), GRACE_MS);
    await this.ended;
    clearTimeout(kill);
  }

  private signal(signal: NodeJS.Signals): void {
    if (this.shell.pid === undefined || this.isOver()) return;
    process.kill(-this.shell.pid, signal);
  }

  private isOver(): boolean {
    return this.shell.exitCode !== null || this.shell.signalCode !== null;
  }
}
