import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, parseInteger, parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { InterruptedError, watchInterrupts } from '../src/cli/interrupts';
import { stopCommands } from '../src/core/exec';
import { anyProcessRuns, killAll, stopAll } from '../src/local/process/managed-process';
import { writePage, type LocalPage } from '../src/local/page';
import { Pipeline } from '../src/local/pipeline';
import {
  describeFailures,
  localResult,
  printAnswers,
  printChecks,
  printEndpoints,
  printJson,
  printModels,
  printPage,
  requireAllServed,
} from '../src/local/report';
import { selectModels } from '../src/local/selection';
import { cannotServeAny, readValidModels } from '../src/local/valid-models';
import { localDirectory, startStack, untilServerEnds } from '../src/local/stack';
import { fingerprints, watchModels } from '../src/local/watch';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { requireTritonPlatform } from '../src/local/install/triton';
import { Cleanup } from '../src/core/cleanup';

const FLAGS = {
  once: { help: 'stop after each model was asked once; exit code 0 only if every model was served and answered' },
  models: { value: 'A,B', help: 'serve only these models, and the models that their ensembles use (default: all)' },
  exclude: { value: 'A,B', help: 'serve all models except these' },
  'no-ask': { help: 'serve models without sending them requests; a model that answers wrongly stays served too' },
  'no-watch': { help: 'do not reload models when their files change' },
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository' },
  weights: {
    value: 'MODEL=FILE',
    multiple: true,
    default: [] as string[],
    help: 'weights of one model: a file, a folder or a hub id; repeat the flag for several models',
  },
  'load-timeout': {
    value: 'SECONDS',
    default: '300',
    help: 'time to trace a model, and for its first load, before it is marked FAILED',
  },
  'http-port': { value: 'N', default: '8000', help: "port of Triton's HTTP API; 0 selects a free port" },
  'grpc-port': { value: 'N', default: '8001', help: "port of Triton's gRPC API" },
  'metrics-port': { value: 'N', default: '8002', help: "port of Triton's metrics" },
  's3-port': { value: 'N', default: '9000', help: 'port of the S3 API' },
  json: { help: 'print the result as JSON' },
} as const;

const LINE = {
  name: 'npm run local',
  about:
    'Serves the models of a repository on this machine, with a real Triton and a real S3 API, without containers or a GPU.',
  flags: FLAGS,
  notes: `Each model is served as soon as it is traced. A model that fails is marked FAILED, and the other models are served; with
--once the command then fails. If files of a model change, the model is traced, validated, loaded and asked again. If the new
files cannot be loaded or answer wrongly, the previous version is served. Traces are checked quickly first, and thoroughly
while the models answer; with --once, "npm run trace" checks them thoroughly.
As in a pod of a stack, a release agent downloads and loads the models and verifies their answers. The models that are ready
are published as one release; if the agent refuses it because of a model, the others are published without that model.
Triton and the agent are restarted when they end.
The bucket, releases and logs of a repository stay in ~/.cache/triton-serving/local for the next run. To start with an
empty bucket, delete this folder.

Examples:
  npm run local
  npm run local -- --models resnet,bert --http-port 0
  npm run local -- --repo ../models --weights ranker=/srv/weights/ranker.pth

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted before all models were asked.`,
};

export const main = command(LINE, async (flags) => {
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
  const page = join(localDirectory(repository), 'page.html');
  const asked = parseSelection(flags);
  const before = await fingerprints(repository);
  const selection = selectModels(await readValidModels(repository, { ...asked, artifacts: false }));

  const progress = new Progress();
  const undo = new Cleanup();
  const interruption = untilInterrupted();
  const stop = new AbortController();
  let pipeline: Pipeline | undefined;
  const serve = async (): Promise<number> => {
    const names = selection.served.map(({ name }) => name);
    if (names.length === 0) throw cannotServeAny(selection.failed);
    const tools = await startStack({
      ...{ repository, loadTimeoutMs, ports, progress },
      models: names,
      // Loaded on demand, because it loads a compiler.
      programs: async () => (await import('../infra/triton/agent/program')).podPrograms(),
      defer: (step) => undo.defer(step),
    });
    const options = {
      ...{ repository, loadTimeoutMs, progress, selection: asked, weights: flags.weights, noAsk: flags['no-ask'] },
      signal: stop.signal,
      show: async () => writePage(page, await getPage()),
    };
    const served = (pipeline = new Pipeline(tools, options, selection.failed));
    const getPage = async (): Promise<LocalPage> => {
      const result = localResult(await tools.stack, served, selection);
      return { result, repository, once: flags.once, made: new Date() };
    };
    served.add(names);
    const ended = tools.stack.then(untilServerEnds);
    // Both may fail before they are awaited.
    ended.catch(() => undefined);
    const watching =
      flags.once || flags['no-watch']
        ? new Promise<never>(() => undefined)
        : watchModels(repository, before, (changed) => served.change(changed), stop.signal).then(() => undefined);
    watching.catch(() => undefined);
    const trouble = Promise.race([ended, served.broken]);
    const started = served.idle().then(() => served.requireAny());
    await Promise.race([started, trouble]);
    const stack = await tools.stack;
    const { result } = await getPage();
    if (flags.json) {
      printJson(result, page);
    } else {
      printModels(served, selection);
      printAnswers(served.answers);
      if (flags.once) printChecks(served, repository);
      printPage(page);
    }
    await options.show();
    if (flags.once) {
      requireAllServed(served);
      return EXIT.ok;
    }
    served.run();

    interruption.markReady();
    if (!flags.json) {
      const failed = served.failed.map(({ name }) => name).sort();
      if (failed.length > 0) process.stdout.write(`${describeFailures(failed, repository, !flags['no-watch'])}\n\n`);
      printEndpoints(stack, served, repository);
    }
    await Promise.race([trouble, interruption.requested, watching]);
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
    stop.abort(new InterruptedError('interrupted'));
    stopCommands();
    // The publish that runs is undone while the S3 server still runs.
    await Promise.race([pipeline?.idle(), sleep(END_OF_PUBLISH_MS, undefined, { ref: false })]);
    const stopServers = (): Promise<void> => undo.run().finally(() => stopAll());
    try {
      if (anyProcessRuns()) await progress.run('stop the servers', stopServers);
      else await stopServers();
    } finally {
      interruption.stopWatching();
    }
  }
});

/** Time for a running publish to be undone before the servers stop. Otherwise the next start undoes it. */
const END_OF_PUBLISH_MS = 5000;

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
