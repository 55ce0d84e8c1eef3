import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { getParent, processIds, readProcess } from '../../src/local/process/proc';
import type { ControlPlane } from './control-plane';
import type { StateResource, TestStack } from './stack';

/** What happens to an update: everything is killed at once, a part of it is, or the API server does not answer. */
export const INTERRUPTIONS = ['process', 'engine', 'provider', 'api-server'] as const;
export type Interruption = (typeof INTERRUPTIONS)[number];

/** A line in the output of Pulumi that reports that a step began or ended. */
const STEP = /^ [-+~@>.\d=]+ +\S+:\S+ \S+ .*(ing|ed)( |$)/;

export interface FinishedRun {
  printed: string;
  /** Null if the program was killed. */
  exitCode: number | null;
}

/** A running update or destroy. */
export interface StartedRun {
  child: ChildProcessByStdio<null, Readable, Readable>;
  ended: Promise<FinishedRun>;
  /** What it has printed so far. */
  printed: () => string;
}

/** Starts an update or a destroy of a stack without a terminal, as a job of CI does. */
export function startRun(stack: TestStack, command: readonly string[]): StartedRun {
  const args = [...command, '--stack', stack.name, '--yes', '--skip-preview', '--non-interactive', '--color', 'never'];
  const child = spawn('pulumi', args, { cwd: stack.directory, env: stack.env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  const ended = (once(child, 'close') as Promise<[number | null]>).then(([exitCode]) => ({ printed, exitCode }));
  return { child, ended, printed: () => printed };
}

export interface InterruptedRun extends FinishedRun {
  /** Number of reported steps. */
  steps: number;
}

/**
 * Runs an update or a destroy of a stack, and interrupts it.
 * @param afterSteps number of reported steps after which this happens
 * @param awayMs how long the API server does not answer
 */
export async function interruptedRun(
  stack: TestStack,
  plane: ControlPlane,
  command: readonly string[],
  { interruption, afterSteps, awayMs }: { interruption: Interruption; afterSteps: number; awayMs: number },
): Promise<InterruptedRun> {
  const { child, ended } = startRun(stack, command);
  let [steps, rest] = [0, ''];
  let happened: Promise<void> | undefined;
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = `${rest}${chunk.toString()}`.split('\n');
    rest = lines.pop() ?? '';
    steps += lines.filter((line) => STEP.test(line)).length;
    if (steps >= afterSteps) happened ??= interrupt(child, plane, interruption, awayMs);
  });
  const result = await ended;
  await happened;
  return { steps, ...result };
}

async function interrupt(
  child: ChildProcess,
  plane: ControlPlane,
  interruption: Interruption,
  awayMs: number,
): Promise<void> {
  const engine = child.pid as number;
  if (interruption === 'api-server') return plane.processes.pause('kube-apiserver', awayMs);
  const children = descendants(engine);
  const killed = {
    process: [engine, ...children],
    engine: [engine],
    provider: children.filter((pid) => commandLine(pid).includes('pulumi-resource-')).slice(0, 1),
  }[interruption];
  kill(killed);
}

/** The processes that a process started, and those that they started. */
function descendants(ancestor: number): number[] {
  const all = processIds().map((pid) => ({ pid, parent: getParent(pid) }));
  const below = (parent: number): number[] =>
    all.filter((process) => process.parent === parent).flatMap(({ pid }) => [pid, ...below(pid)]);
  return below(ancestor);
}

/** Program and arguments of a process; empty if it has ended. */
const commandLine = (pid: number): string => readProcess(pid, 'cmdline') ?? '';

/** How long a provider may still work on requests of an engine that was killed. */
const LINGER_MS = 20_000;

/** An engine that is killed while it writes this file leaves it empty (docs/ci.md). */
export function removeTornAttributes({ stateFile }: TestStack): void {
  const file = `${stateFile}.attrs`;
  if (existsSync(file) && readFileSync(file, 'utf8') === '') rmSync(file);
}

/**
 * Ends what an interrupted run left: waits until no provider works any more, and kills those that still wait for objects.
 * Kills at once the language host and the program, which notice only after minutes that their engine has ended. Then the
 * state can be read.
 */
export async function runEnded(stack: TestStack): Promise<void> {
  const home = stack.env['PULUMI_HOME'] ?? '';
  const plugins = `${home}/plugins/`;
  const isOfStack = (pid: number): boolean =>
    (readProcess(pid, 'environ') ?? '').split('\0').includes(`PULUMI_HOME=${home}`);
  kill(processIds().filter((pid) => isOfStack(pid) && !commandLine(pid).startsWith(plugins)));
  for (const end = Date.now() + LINGER_MS; ;) {
    const pids = processIds().filter((pid) => commandLine(pid).startsWith(plugins));
    if (pids.length === 0) break;
    if (Date.now() > end) kill(pids);
    await sleep(500);
  }
  removeTornAttributes(stack);
}

function kill(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The process has ended.
    }
  }
}

/** Parts of inputs that differ each time a resource is created: ids of AWS, and the end of generated names. */
const RANDOM = /\b[a-z]{2,9}-[0-9a-f]{17}\b|-[0-9a-f]{7}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

/** The resources of a stack as two runs with the same settings leave them. */
export function comparable(resources: readonly (StateResource & { delete?: boolean })[]): string[] {
  return resources
    .map(({ urn, inputs = {}, protect = false, delete: isDeleted = false }) =>
      JSON.stringify({ urn, protect, isDeleted, inputs }).replaceAll(RANDOM, '-RANDOM'),
    )
    .sort();
}
