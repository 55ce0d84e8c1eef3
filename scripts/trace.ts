import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { EXIT, parseFlags, parseSelection, runCommand } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { formatBytes, formatCount, formatDuration } from '../src/core/format';
import { displayPath, reasonOf } from '../src/model/paths';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { ensurePython } from '../src/install/python';
import { describeFitted, describeTrace, traceModels, type TraceEvent } from '../src/trace/trace';

const HELP = `Traces or exports the models of a repository that have a trace.py, and checks them against PyTorch.
Downloads first what a weights.yaml beside it names.

  npm run trace -- [options]

  --repo DIR            model repository (default: model-repo)
  --models A,B          only these
  --exclude A,B         all but these
  --weights MODEL=FILE  weights for one model: a file, a folder or a hub id, OWNER/NAME@REVISION;
                        instead of what its weights.yaml names; may be given again
  --force               also those that are up to date
  --fit-config          where weights need other dims than model.yaml has, set them there and say so
  --explain             say why each model would be made, or why it is up to date, and make none
  --version N           version folder to write (default: the newest that version_policy names, or 1)
  --seed N              of random weights and of the check's inputs (default: 0)
  --jobs N              models made at the same time (default: 2 where there is memory for it, else 1)
  --help

Exit codes: 0 done, 1 a model failed, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => trace(argv));
}

async function trace(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    repo: { type: 'string', default: paths.modelRepository },
    models: { type: 'string' },
    exclude: { type: 'string' },
    weights: { type: 'string', multiple: true, default: [] },
    force: { type: 'boolean', default: false },
    'fit-config': { type: 'boolean', default: false },
    explain: { type: 'boolean', default: false },
    version: { type: 'string' },
    seed: { type: 'string' },
    jobs: { type: 'string' },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const selection = parseSelection(flags);
  requireRepository(flags.repo);
  const lines: string[] = [];
  const progress = new Progress();
  const { python } = await progress.run('Python environment', (step) => ensurePython(step));
  await progress.run('trace', (step) =>
    traceModels({
      python,
      repository: flags.repo,
      ...selection,
      weights: flags.weights,
      force: flags.force,
      fitConfig: flags['fit-config'],
      explain: flags.explain,
      version: flags.version,
      seed: flags.seed,
      jobs: flags.jobs,
      onEvent: (event) => {
        if (event.event === 'progress') step.update(`${event.model}: ${event.step}`);
        const line = describe(event);
        if (line === undefined) return;
        lines.push(line);
        progress.erase();
        process.stdout.write(`${line}\n`);
      },
    }),
  );
  if (lines.length === 0)
    process.stdout.write(`no model of ${displayPath(resolve(flags.repo))} has a trace.py: nothing to trace\n`);
  return EXIT.ok;
}

/** Checks the folder before a Python environment is created. */
function requireRepository(folder: string): void {
  try {
    readdirSync(folder);
  } catch (cause) {
    throw new UsageError(`model repository ${displayPath(resolve(folder))} cannot be read: ${reasonOf(cause)}`, {
      hint: 'name one with --repo',
      cause,
    });
  }
}

/** One line for each event that is a result. */
function describe(event: TraceEvent): string | undefined {
  switch (event.event) {
    case 'explain':
      return event.reasons.length === 0
        ? `${event.model}: up to date: ${event.files} files that it is made from, ${event.packages} packages, the seed and the weights are as they were`
        : `${event.model}: would be made: ${event.reasons.join('; ')}`;
    case 'warning':
      return `${event.model}: warning: ${event.text}`;
    case 'fitted':
      return describeFitted(event);
    case 'fetched':
      return `${event.model}: ${formatCount(event.files, 'file')} downloaded, as weights.yaml says`;
    case 'nothing':
      return `${event.model} ${event.file === null ? 'has no trace.py' : `brings its own ${event.file}`}: nothing to trace`;
    case 'done':
    case 'up-to-date': {
      const how = event.event === 'done' ? `made in ${formatDuration(event.seconds * 1000)}` : 'up to date';
      return `${event.model}: ${event.artifact} (${formatBytes(event.bytes)}), ${how}; ${describeTrace(event)}`;
    }
    default:
      return undefined;
  }
}
