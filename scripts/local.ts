import { basename, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, parseFlags, parseInteger, parseSelection, runCommand } from '../src/cli/cli';
import { InterruptedError, watchInterrupts } from '../src/cli/interrupts';
import { UserError } from '../src/core/errors';
import { stopCommands } from '../src/core/exec';
import { anyProcessRuns, killAll, stopAll } from '../src/local/process/managed-process';
import { requirePageFolder, writePage } from '../src/local/page';
import { Reloads } from '../src/local/reloads';
import {
  describeFailures,
  localResult,
  printAnswers,
  printEndpoints,
  printJson,
  printModels,
  printPage,
  type LocalResult,
} from '../src/local/report';
import type { SmokeTestResult } from '../src/local/smoke-test';
import { selectModels } from '../src/local/selection';
import { readValidModels } from '../src/local/valid-models';
import { localDirectory, requireAllServed, startStack } from '../src/local/stack';
import { Timings } from '../src/local/timings';
import { fingerprints, watchModels } from '../src/local/watch';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { requireTritonPlatform } from '../src/install/triton';
import { Cleanup } from '../src/core/cleanup';

const FLAGS = {
  once: { type: 'boolean', default: false },
  models: { type: 'string' },
  exclude: { type: 'string' },
  'no-ask': { type: 'boolean', default: false },
  'no-watch': { type: 'boolean', default: false },
  agent: { type: 'boolean', default: false },
  repo: { type: 'string', default: paths.modelRepository },
  weights: { type: 'string', multiple: true, default: [] as string[] },
  'load-timeout': { type: 'string', default: '300' },
  'http-port': { type: 'string', default: '8000' },
  'grpc-port': { type: 'string', default: '8001' },
  'metrics-port': { type: 'string', default: '8002' },
  's3-port': { type: 'string', default: '9000' },
  page: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `Serves the models of a repository on this machine, with a real Triton and a real S3 API, without containers or a GPU.

  npm run local [-- options]

  --once                 stop after each model was asked once; exit code 0 only if every model was served and answered
  --models A,B           serve only these models, and the models that their ensembles use (default: all)
  --exclude A,B          serve all models except these
  --no-ask               serve models without sending them requests; a model that answers wrongly stays served too
  --no-watch             do not reload models when their files change
  --agent                serve as the pods of a stack with "agent" do: a release agent downloads and loads each release as a whole
  --repo DIR             model repository (default: ${basename(paths.modelRepository)})
  --weights MODEL=FILE   weights of one model: a file, a folder or a hub id; repeat the flag for several models
  --load-timeout SECONDS time for the first load of one model, which then is marked FAILED (default: ${FLAGS['load-timeout'].default})
  --http-port N          port of Triton's HTTP API (default: ${FLAGS['http-port'].default}; 0 selects a free port)
  --grpc-port N          port of Triton's gRPC API (default: ${FLAGS['grpc-port'].default})
  --metrics-port N       port of Triton's metrics (default: ${FLAGS['metrics-port'].default})
  --s3-port N            port of the S3 API (default: ${FLAGS['s3-port'].default})
  --page FILE            file for the HTML page with the answers (default: a file in the cache; the command prints its address)
  --json                 print the result as JSON
  --help                 print this text

A model that fails is marked FAILED, and the other models are served; with --once the command then fails. If files of a
model change, the model is traced, validated, loaded and asked again. If the new files cannot be loaded or answer wrongly,
the previous version is served.
With --agent, a release is served as a whole or not at all: a model that cannot be loaded or answers wrongly at the start
refuses the release, and the command fails; --exclude leaves the model out. Triton and the agent are restarted when they end.
The bucket, releases and logs of a repository stay in ~/.cache/triton-serving/local for the next run. To start with an
empty bucket, delete this folder.

Examples:
  npm run local
  npm run local -- --models resnet,bert --http-port 0
  npm run local -- --repo ../models --weights ranker=/srv/weights/ranker.pth
  npm run local -- --agent --exclude gfpgan

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted before all models were asked.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => local(argv));
}

async function local(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, FLAGS);
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const port = (flag: 'http-port' | 'grpc-port' | 'metrics-port' | 's3-port'): number =>
    parseInteger(flag, flags[flag], 0, 65535);
  const loadTimeoutMs = parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000;
  const ports = {
    'http-port': port('http-port'),
    'grpc-port': port('grpc-port'),
    'metrics-port': port('metrics-port'),
    's3-port': port('s3-port'),
  };
  requireTritonPlatform();
  const repository = resolve(flags.repo);
  const page = resolve(flags.page ?? join(localDirectory(repository), 'page.html'));
  if (flags.page !== undefined) requirePageFolder(page);
  const asked = parseSelection(flags);
  const before = await fingerprints(repository);
  const selection = selectModels(await readValidModels(repository, { ...asked, artifacts: false }));

  const progress = new Progress();
  const timings = new Timings();
  const undo = new Cleanup();
  const interruption = untilInterrupted();
  const stop = new AbortController();
  const serve = async (): Promise<number> => {
    const stack = await startStack({
      repository,
      models: selection.served.map(({ name }) => name),
      invalid: selection.failed,
      weights: flags.weights,
      loadTimeoutMs,
      noAsk: flags['no-ask'],
      // Loaded on demand, because it loads a compiler.
      pod: flags.agent ? (await import('../infra/triton/agent/program')).podPrograms() : undefined,
      ports,
      progress,
      timings,
      defer: (step) => undo.defer(step),
    });
    if (!flags.json) printModels(stack, selection);
    const { answers } = stack;
    const show = async (current: readonly SmokeTestResult[]): Promise<LocalResult> => {
      const result = localResult(stack, selection, current, timings);
      await writePage(page, { result, repository, once: flags.once, made: new Date() });
      return result;
    };
    const result = await show(answers);
    if (flags.json) {
      printJson(result, page);
    } else {
      printAnswers(answers, timings);
      printPage(page);
    }
    const wrong = answers.filter(({ error }) => error !== undefined).map(({ model }) => model);
    if (flags.once) requireAllServed(stack);
    if (flags.once && wrong.length > 0) throw new UserError(`no correct answer from ${[...new Set(wrong)].join(', ')}`);
    if (flags.once) return EXIT.ok;

    interruption.markReady();
    if (!flags.json) {
      const names = stack.failed.map(({ name }) => name).sort();
      if (names.length > 0) process.stdout.write(`${describeFailures(names, repository, !flags['no-watch'])}\n\n`);
      printEndpoints(stack, repository);
    }
    const reloads = new Reloads(
      {
        repository,
        selection: asked,
        weights: flags.weights,
        noAsk: flags['no-ask'],
        progress,
        stack,
        signal: stop.signal,
      },
      answers,
      async (current) => {
        await show(current);
      },
    );
    const watching = flags['no-watch']
      ? new Promise<void>(() => undefined)
      : watchModels(repository, before, (changed) => reloads.add(changed), stop.signal);
    undo.defer(async () => {
      stop.abort(new InterruptedError('interrupted'));
      stopCommands();
      await Promise.race([reloads.idle(), sleep(END_OF_RELOAD_MS)]);
    });
    const ended = (name: string, { ended, logFile }: { ended: Promise<string>; logFile: string }): Promise<UserError> =>
      ended.then((how) => new UserError(`${name} ended unexpectedly (${how})`, { hint: `see its log, ${logFile}` }));
    const early = await Promise.race([
      ended('tritonserver', stack.triton),
      ended('the S3 server', stack.s3),
      ...(stack.agent === undefined ? [] : [ended('the release agent', stack.agent)]),
      interruption.requested,
      watching.then(() => undefined),
      reloads.failed,
    ]);
    if (early !== undefined) throw early;
    return EXIT.ok;
  };
  try {
    return await Promise.race([serve(), interruption.thrown]);
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    progress.abandon();
    progress.line(error.message);
    return EXIT.interrupted;
  } finally {
    stopCommands();
    const stopServers = (): Promise<void> => undo.run().finally(() => stopAll());
    try {
      if (anyProcessRuns()) await progress.run('stop the servers', stopServers);
      else await stopServers();
    } finally {
      interruption.stopWatching();
    }
  }
}

/** Time for a running reload to finish before the servers stop. */
const END_OF_RELOAD_MS = 5000;

/**
 * Ctrl-C during the start ends the start with an error. After the start, Ctrl-C is the ordinary way to stop.
 * A second Ctrl-C ends immediately.
 */
function untilInterrupted() {
  let ordinary = false;
  let request: (value: undefined) => void = () => undefined;
  let fail: (error: InterruptedError) => void = () => undefined;
  const requested = new Promise<undefined>((resolve) => (request = resolve));
  const thrown = new Promise<never>((_, reject) => (fail = reject));
  thrown.catch(() => undefined);
  const stopWatching = watchInterrupts({
    first: () => {
      if (ordinary) request(undefined);
      else fail(new InterruptedError('interrupted'));
    },
    again: () => {
      killAll();
      process.exit(EXIT.interrupted);
    },
  });
  return {
    /** Settles when an interrupt arrives after markReady. */
    requested,
    /** Rejects when an interrupt arrives before markReady. */
    thrown,
    markReady: (): void => {
      ordinary = true;
    },
    stopWatching,
  };
}
