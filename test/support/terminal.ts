import { spawn, type ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './until';

/** A first start makes the Python environment. */
const TIMEOUT_MS = 400_000;

/** For the processes of a shell that was left. */
const GRACE_MS = 10_000;

/** A shell that blocks of commands are put into, one after the other, as into a terminal. */
export class Terminal {
  private readonly shell: ChildProcess;
  private readonly ended: Promise<number | null>;
  private output = '';
  private blocks = 0;

  /** @param scratch a folder for the blocks, as files */
  constructor(
    private readonly name: string,
    directory: string,
    private readonly scratch: string,
  ) {
    // A group of its own, which Ctrl-C goes to.
    this.shell = spawn('bash', [], { cwd: directory, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    this.ended = new Promise((resolve) => this.shell.once('close', resolve));
    for (const stream of [this.shell.stdout, this.shell.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.shell.stdin?.write('set -euo pipefail\n');
  }

  /** Runs a block to its end. @returns what it printed @throws Error if a command of it fails */
  async run(block: string): Promise<string> {
    const from = this.output.length;
    const end = `-- end of block ${this.blocks + 1}`;
    this.start(`${block}\necho; echo '${end}'`);
    return (await this.until(end)).slice(from);
  }

  /** Runs a block that need not come to an end. */
  start(block: string): void {
    const file = join(this.scratch, `${this.name}-${(this.blocks += 1)}.sh`);
    writeFileSync(file, `${block}\n`);
    // Commands that read their input must not read what comes after them.
    this.shell.stdin?.write(`. ${file} < /dev/null\n`);
  }

  /** Waits for a text. @returns all that was printed */
  async until(text: string): Promise<string> {
    await until(
      `the ${this.name} terminal says "${text}"`,
      () => Promise.resolve(this.output.includes(text) || this.isOver()),
      TIMEOUT_MS,
    );
    if (!this.output.includes(text)) throw new Error(`the ${this.name} terminal ended:\n${this.output}`);
    return this.output;
  }

  /** Ctrl-C, and then no more input. @returns exit code of the shell */
  interrupt(): Promise<number | null> {
    this.signal('SIGINT');
    this.shell.stdin?.end();
    return this.ended;
  }

  /** Ends whatever runs, as closing the window does. */
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
