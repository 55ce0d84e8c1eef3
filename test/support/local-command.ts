import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { processIds, readProcess } from '../../src/local/process/proc';
import { localDirectory } from '../../src/local/stack';
import { paths } from '../../src/core/paths';
import { addingModel, answeringProgram, askOne, writeRepository } from './repository';
import { runCommandLine, type Finished } from './run';
import { Scratch } from './temp-dir';
import { until } from './wait-for';

/**
 * Models with names and configurations of this package's models but trivial computations, on Triton's python backend:
 * files for writeRepository. The ensemble returns the negative of a picture; the classifier always returns class 1.
 */
export function pictureModels(): Record<string, string> {
  const pixels = (direction: string, name: string): string =>
    `${direction} { name: "${name}" data_type: TYPE_UINT8 dims: [-1, -1, 3] }`;
  return {
    'negative/config.pbtxt': config('backend: "python"', pixels('input', 'x'), pixels('output', 'y')),
    'negative/1/model.py': answeringProgram('x', 'y', '255 - x'),
    'ens_face_restoration_v2.1/config.pbtxt': config(
      'platform: "ensemble"',
      pixels('input', 'raw_image'),
      pixels('output', 'image_out'),
      'ensemble_scheduling { step { model_name: "negative" model_version: -1',
      '  input_map { key: "x" value: "raw_image" } output_map { key: "y" value: "image_out" } } }',
    ),
    'ens_face_restoration_v2.1/1/.keep': 'An ensemble has no file.\n',
    'resnet/config.pbtxt': config(
      'backend: "python"',
      'input { name: "input__0" data_type: TYPE_FP32 dims: [1, 3, 224, 224] }',
      'output { name: "output__0" data_type: TYPE_FP32 dims: [1, 3] }',
    ),
    'resnet/labels.txt': 'a\nb <b>\nc\n',
    'resnet/1/model.py': answeringProgram('input__0', 'output__0', 'np.array([[0, 50, 0]], dtype=np.float32)'),
  };
}

function config(...lines: string[]): string {
  return [...lines, ''].join('\n');
}

/** Start time of `npm run local` on a busy machine. */
const START_MS = 400_000;

/** Flags with which `npm run local` selects its ports. */
export const FREE_PORTS = ['--http-port', '0', '--grpc-port', '0', '--metrics-port', '0', '--s3-port', '0'];

/** `npm run local` in the background. */
export interface RunningLocal {
  child: ChildProcess;
  /** Output until now. */
  said: () => string;
  /** Exit code; null if a signal ended the process. */
  ended: Promise<number | null>;
}

/** Runs `npm run local` with a repository that has the model `adds`, and finds what a run left on this machine. */
export class LocalCommand {
  readonly repository: string;
  /** All processes that `npm run local` starts have this folder in their command line. */
  readonly directory: string;
  private readonly started: RunningLocal[] = [];

  /** @param name folder of the repository, for tests that run at the same time */
  constructor(
    private readonly scratch: Scratch,
    name = 'repository',
  ) {
    this.repository = writeRepository(join(scratch.directory, name), addingModel('adds', { 1: 10 }));
    this.directory = this.getDirectory(this.repository);
  }

  /** Folder of the local stack of a repository, deleted when the scratch folder is cleaned. */
  getDirectory(repository: string): string {
    const directory = localDirectory(repository);
    this.scratch.defer(() => rmSync(directory, { recursive: true, force: true }));
    return directory;
  }

  /** Runs the command on free ports until it exits. */
  run(flags: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Finished> {
    return runCommandLine('local', ['--repo', this.repository, ...FREE_PORTS, ...flags], env);
  }

  /** Starts the command on free ports. The first argument may be environment variables. */
  start(...given: [NodeJS.ProcessEnv, ...string[]] | string[]): RunningLocal {
    const [first, ...others] = given;
    const [env, flags] = typeof first === 'object' ? [first, others as string[]] : [{}, given as string[]];
    const args = [join(paths.scripts, 'run.mjs'), 'local', '--repo', this.repository, ...FREE_PORTS, ...flags];
    const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    this.scratch.defer(() => void child.kill('SIGKILL'));
    const local = watchLocal(child);
    this.started.push(local);
    return local;
  }

  /** Ends what a failed test left running, because the next one could not start. */
  async stop(): Promise<void> {
    for (const { child, ended } of this.started) {
      child.kill('SIGINT');
      await ended;
    }
  }

  /** Command lines of the processes of the local stack. */
  processes(): string[] {
    return processes().filter((command) => command.includes(this.directory));
  }

  /** Fails if a process or a file in /dev/shm is left. */
  expectNothingLeft(): void {
    expect(this.processes()).toEqual([]);
    const ours = this.started.map(({ child }) => `triton-serving-${child.pid}-`);
    const shared = readdirSync('/dev/shm');
    expect(shared.filter((name) => ours.some((prefix) => name.startsWith(prefix)))).toEqual([]);
  }
}

/** Collects the output of a process that runs `npm run local`. */
export function watchLocal(child: ChildProcessByStdio<null, Readable, Readable>): RunningLocal {
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (more: string) => (text += more));
  return { child, said: () => text, ended: new Promise((resolve) => child.once('close', resolve)) };
}

/** Waits for a condition; fails immediately if `npm run local` has exited. */
export async function untilLocal({ child, said }: RunningLocal, condition: () => boolean): Promise<void> {
  await until('it came so far', () => condition() || child.exitCode !== null, START_MS);
  if (!condition()) throw new Error(`it ended with ${child.exitCode}:\n${said()}`);
}

/** Waits until `npm run local` reports that everything is running. */
export const untilUp = (local: RunningLocal): Promise<void> =>
  untilLocal(local, () => local.said().includes('Ctrl-C stops everything'));

/** An address in the table that `npm run local` prints. */
export function getAddress({ said }: RunningLocal, what: string): string {
  return new RegExp(`${what}\\s+(\\S+)`).exec(said())?.[1] ?? '';
}

/** Command lines of all processes. */
const processes = (): string[] => processIds().map((pid) => readProcess(pid, 'cmdline')?.replaceAll('\0', ' ') ?? '');

/** `npm run local` for the tests of a file, which stop it, and must leave nothing behind. */
export function localTests(): { scratch: Scratch; command: LocalCommand } {
  const scratch = new Scratch();
  const command = new LocalCommand(scratch);
  // After the tests, because the run after a killed one removes what that left in shared memory.
  afterAll(() => command.expectNothingLeft());
  afterAll(() => scratch.clean());
  afterEach(async () => {
    await command.stop();
    expect(command.processes()).toEqual([]);
  });
  return { scratch, command };
}

/** The answer of a running model to 1. */
export const askLocal = (local: RunningLocal, model: string): Promise<unknown> =>
  askOne(getAddress(local, 'Triton HTTP'), model);

/** Whether changed files of a model were served, at least this number of times. */
export const isServed = ({ said }: RunningLocal, model: string, times = 1): boolean =>
  said().split(`${model} is served with the changed files`).length > times;
