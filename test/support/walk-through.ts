import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { localDirectory } from '../../src/local/stack';
import { paths } from '../../src/core/paths';
import { freePorts } from '../../src/local/process/ports';
import { fences, type Fence } from './markdown';
import type { Scratch } from './temp-dir';
import { spawn, type ChildProcess } from 'node:child_process';
import { until } from './wait-for';

/** Long, because a first start creates the Python environment. */
const TIMEOUT_MS = 400_000;

/** Time for processes to end after the shell was closed. */
const GRACE_MS = 10_000;

/** A shell that runs blocks of commands one after the other, like a terminal. */
class Terminal {
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

/** A copy of this package like a fresh clone, but with installed dependencies. */
function copyOfThePackage(scratch: Scratch): string {
  const copy = join(scratch.directory, 'package');
  const isLeftOut = (path: string): boolean =>
    /^(\.git|node_modules|build)$|^model-repo\/[^/]+\/(\d+\/model\.|\.tracing-)|__pycache__/.test(path);
  cpSync(paths.root, copy, { recursive: true, filter: (from) => !isLeftOut(relative(paths.root, from)) });
  symlinkSync(join(paths.root, 'node_modules'), join(copy, 'node_modules'));
  const repository = join(copy, 'model-repo');
  scratch.defer(() => rmSync(localDirectory(repository), { recursive: true, force: true }));
  return copy;
}

/** Replaces parts of the output that differ between runs: times, sizes, releases, the folder, widths of columns. */
function comparable(output: string, directory: string): string {
  return output
    .replaceAll(directory, '...')
    .replace(/\b\d{8}T\d{9}Z-[0-9a-f]{8}\b/g, 'RELEASE')
    .replace(/\b\d+ min \d+ s\b/g, 'SOME s')
    .replace(/\b[\d.]+ (ms|s|min|B|kB|MB)\b/g, 'SOME $1')
    .replace(/\bSOME (ms|s|min)\b/g, 'SOME TIME')
    .replace(/[ \t]+/g, ' ');
}

/**
 * Follows a page of docs/ from the first block to the last: writes its files, runs its commands, and checks for the
 * output that it shows.
 * @param skipped languages of blocks for other machines
 * @returns the blocks that were executed
 */
export async function walkThrough(scratch: Scratch, page: string, skipped: readonly string[] = []): Promise<Fence[]> {
  const blocks = fences(readFileSync(join(paths.root, 'docs', page), 'utf8')).filter(
    ({ language }) => !skipped.includes(language),
  );
  const directory = copyOfThePackage(scratch);
  const [http = 0, grpc = 0, metrics = 0, s3 = 0] = await freePorts(4);
  const flags = `--http-port ${http} --grpc-port ${grpc} --metrics-port ${metrics} --s3-port ${s3}`;
  // Only the ports differ, because those of the page may be in use.
  const withPorts = (text: string): string =>
    text
      .replace(/^npm run local -- .*$/gm, `$& ${flags}`)
      .replaceAll('127.0.0.1:8000', `127.0.0.1:${http}`)
      .replaceAll('127.0.0.1:9000', `127.0.0.1:${s3}`);
  const open = (name: string): Terminal => {
    const terminal = new Terminal(name, directory, scratch.directory);
    scratch.defer(() => terminal.close());
    return terminal;
  };
  const [first, second] = [open('first'), open('second')];
  let output = '';
  for (const { language, note, text, before } of blocks) {
    if (language === 'text' && note === '') {
      const said = comparable(output, directory);
      for (const line of text.trim().split('\n')) expect(said).toContain(comparable(withPorts(line), directory).trim());
    } else if (language !== 'sh') {
      // A rendered page does not show the note, so the text has to name the file.
      expect(before).toContain(`\`${note}\``);
      mkdirSync(dirname(join(directory, note)), { recursive: true });
      writeFileSync(join(directory, note), text);
    } else if (note === 'second terminal') {
      expect(before).toContain('In a second terminal');
      second.start(withPorts(text));
      output = await second.until('Ctrl-C stops everything.');
    } else {
      expect(note).toBe('');
      output = await first.run(withPorts(text));
    }
  }
  expect(await second.interrupt()).toBe(0);
  return blocks;
}
