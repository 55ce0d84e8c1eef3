import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { EXIT, parseSelection } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { UsageError } from '../src/core/errors';
import { formatBytes, formatCount, formatDuration } from '../src/core/format';
import { readValidRepository } from '../src/model';
import { displayPath, getReason, TRACE_FILE } from '../src/model/paths';
import { paths } from '../src/core/paths';
import { Progress } from '../src/cli/progress';
import { ensurePython } from '../src/local/install/python';
import { describeTrace, traceModels, type TraceEvent } from '../src/local/trace/trace';

const FLAGS = {
  repo: { value: 'DIR', default: paths.modelRepository, help: 'model repository' },
  models: { value: 'A,B', help: 'trace only these models' },
  exclude: { value: 'A,B', help: 'trace all models except these' },
  weights: {
    value: 'MODEL=FILE',
    multiple: true,
    default: [] as string[],
    help: 'weights of one model, instead of those in its weights.yaml: a file, a folder or a hub id, OWNER/NAME@REVISION; repeat the flag for several models',
  },
  force: { help: 'also trace models that are up to date' },
  version: { value: 'N', help: 'version folder to write (default: the newest that version_policy names, or 1)' },
  seed: { value: 'N', help: 'seed of random weights and of the inputs of the comparison (default: 0)' },
  jobs: { value: 'N', help: 'number of models to trace in parallel (default: 2 if there is enough memory, else 1)' },
} as const;

const LINE = {
  name: 'npm run trace',
  about:
    'Traces or exports the models of a repository that have a trace.py, and compares the result with PyTorch. If a model has a weights.yaml, downloads its weights first.',
  flags: FLAGS,
  notes: `Examples:
  npm run trace
  npm run trace -- --models resnet --force
  npm run trace -- --weights resnet=/srv/weights/resnet50.pth

Exit codes: 0 done, 1 a model failed, 2 wrong command line.`,
};

export const main = command(LINE, async (flags) => {
  const selection = parseSelection(flags);
  await requireValid(flags.repo, selection);
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
    process.stdout.write(`Nothing to trace: no selected model of ${displayPath(resolve(flags.repo))} has a trace.py\n`);
  return EXIT.ok;
});

/** Checks the configurations of the models to trace, as "npm run validate" does, before minutes of work. */
async function requireValid(folder: string, { models, exclude }: ReturnType<typeof parseSelection>): Promise<void> {
  let traced: string[];
  try {
    traced = readdirSync(folder).filter((name) => existsSync(join(folder, name, TRACE_FILE)));
  } catch (cause) {
    throw new UsageError(`model repository ${displayPath(resolve(folder))} cannot be read: ${getReason(cause)}`, {
      hint: 'give the folder of a model repository with --repo',
      cause,
    });
  }
  const selected = traced.filter((name) => models?.includes(name) !== false && !exclude?.includes(name));
  if (selected.length === 0) return;
  await readValidRepository(folder, { models: selected, artifacts: false }, 'traced');
}

/** One line for each event that is a result. */
function describe(event: TraceEvent): string | undefined {
  switch (event.event) {
    case 'warning':
      return `${event.model}: warning: ${event.text}`;
    case 'fetched':
      return `${event.model}: downloaded ${formatCount(event.files, 'file')} that weights.yaml names`;
    case 'nothing':
      return `${event.model} has no trace.py, so nothing is traced`;
    case 'done':
    case 'up-to-date': {
      const how = event.event === 'done' ? `made in ${formatDuration(event.seconds * 1000)}` : 'up to date';
      return `${event.model}: ${event.artifact} (${formatBytes(event.bytes)}), ${how}; ${describeTrace(event)}`;
    }
    default:
      return undefined;
  }
}
