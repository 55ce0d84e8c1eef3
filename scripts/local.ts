import { join, resolve } from 'node:path';
import { EXIT, parseFlags, parseInteger, parseList, runCommand } from './lib/cli';
import { Interrupted, watchInterrupts } from './lib/commands/interrupts';
import { UserError } from './lib/errors';
import { stopCommands } from './lib/exec';
import { killAll, stopAll } from './lib/managed-process';
import { requirePageFolder, writePage } from './lib/local/page';
import { localResult, printAnswers, printEndpoints, printJson, printModels, printPage } from './lib/local/report';
import { askEachModel } from './lib/local/requests';
import { selectModels } from './lib/local/selection';
import { localDirectory, startStack } from './lib/local/stack';
import { Timings } from './lib/local/timings';
import { paths } from './lib/paths';
import { Progress } from './lib/progress';
import { requireTritonPlatform } from './lib/toolchain/triton';
import { Undo } from './lib/undo';

const HELP = `Serves the models of this repository on this machine: a real Triton on a real S3 API, no container, no GPU.

  npm run local [-- options]

  --once                stop after the first answers; exit code 0 only if every served model answered
  --models A,B          only these; what an ensemble is made of comes along (default: all)
  --repo DIR            model repository (default: model-repo)
  --weights MODEL=FILE  weights for one model: a file, a folder or a hub id; may be given again
  --http-port N         Triton HTTP (default 8000; 0 takes a free one)
  --grpc-port N         Triton gRPC (default 8001)
  --metrics-port N      Triton metrics (default 8002)
  --s3-port N           S3 (default 9000)
  --page FILE           where to write the page with the answers (default: in the cache; its address is printed)
  --json                the result as JSON on stdout
  --help

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted before all was up.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => local(argv));
}

async function local(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    once: { type: 'boolean', default: false },
    models: { type: 'string' },
    repo: { type: 'string', default: paths.modelRepository },
    weights: { type: 'string', multiple: true, default: [] },
    'http-port': { type: 'string', default: '8000' },
    'grpc-port': { type: 'string', default: '8001' },
    'metrics-port': { type: 'string', default: '8002' },
    's3-port': { type: 'string', default: '9000' },
    page: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const port = (flag: 'http-port' | 'grpc-port' | 'metrics-port' | 's3-port'): number =>
    parseInteger(flag, flags[flag], 0, 65535);
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
  const selection = await selectModels(repository, parseList('models', flags.models));

  const progress = new Progress();
  const timings = new Timings();
  const undo = new Undo();
  const interruption = untilInterrupted();
  const serve = async (): Promise<number> => {
    const stack = await startStack({
      repository,
      models: selection.served.map(({ name }) => name),
      weights: flags.weights,
      ports,
      progress,
      timings,
      defer: (step) => undo.defer(step),
    });
    if (!flags.json) printModels(stack, selection);
    const answers = await timings.measure('requests', () => askEachModel(stack.triton, selection.served));
    const result = localResult(stack, selection, answers, timings);
    await writePage(page, { result, repository, once: flags.once, made: new Date() });
    if (flags.json) {
      printJson(result, page);
    } else {
      printAnswers(answers, timings);
      printPage(page);
    }
    const failed = answers.filter(({ error }) => error !== undefined).map(({ model }) => model);
    if (failed.length > 0) throw new UserError(`no right answer from ${[...new Set(failed)].join(', ')}`);
    if (flags.once) return EXIT.ok;

    interruption.becomeOrdinary();
    if (!flags.json) printEndpoints(stack, repository);
    const ended = (name: string, { ended, logFile }: { ended: Promise<string>; logFile: string }): Promise<UserError> =>
      ended.then((how) => new UserError(`${name} ended by itself (${how})`, { hint: `its log is ${logFile}` }));
    const early = await Promise.race([
      ended('tritonserver', stack.triton),
      ended('the S3 server', stack.s3),
      interruption.requested,
    ]);
    if (early !== undefined) throw early;
    return EXIT.ok;
  };
  try {
    return await Promise.race([serve(), interruption.thrown]);
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    progress.line(error.message);
    return EXIT.interrupted;
  } finally {
    stopCommands();
    const stop = (): Promise<void> => undo.run().finally(() => stopAll());
    try {
      if (!undo.isEmpty) await progress.run('stop what was started', stop);
    } finally {
      interruption.stopWatching();
    }
  }
}

/**
 * Ctrl-C while things are starting ends the start with an error; once all is up it is the ordinary way to stop.
 * A second Ctrl-C does not wait for anything.
 */
function untilInterrupted() {
  let ordinary = false;
  let request: (value: undefined) => void = () => undefined;
  let fail: (error: Interrupted) => void = () => undefined;
  const requested = new Promise<undefined>((resolve) => (request = resolve));
  const thrown = new Promise<never>((_, reject) => (fail = reject));
  thrown.catch(() => undefined);
  const stopWatching = watchInterrupts({
    first: () => {
      if (ordinary) request(undefined);
      else fail(new Interrupted('interrupted'));
    },
    again: () => {
      killAll();
      process.exit(EXIT.interrupted);
    },
  });
  return {
    /** Settles when an interrupt came after becomeOrdinary. */
    requested,
    /** Rejects when an interrupt came before. */
    thrown,
    becomeOrdinary: (): void => {
      ordinary = true;
    },
    stopWatching,
  };
}
