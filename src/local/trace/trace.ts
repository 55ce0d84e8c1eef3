import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { UsageError, UserError, type Problem } from '../../core/errors';
import { CommandError, exec } from '../../core/exec';
import { formatBytes } from '../../core/format';
import { ignoreMadeFiles } from './made-files';
import { paths } from '../../core/paths';
import { acquireLock, cacheRoot } from '../install/cache';
import { getUv } from '../install/python';
import { fetchFile } from './fetch-weights';
import { readWeightsFile } from '../../model/weights-file';
import { CPU_VARIABLES } from '../../triton/serving';

export interface TraceOptions {
  python: string;
  repository: string;
  models?: readonly string[];
  exclude?: readonly string[];
  /** MODEL=FILE, MODEL=HUB-ID or MODEL=DIRECTORY */
  weights: readonly string[];
  force?: boolean;
  /** Compare only the golden requests with PyTorch, before a model is served on this machine. */
  quick?: boolean;
  /** Leave the processors to other programs. */
  background?: boolean;
  /** Time for one model, which then fails. Default: no limit. */
  limitSeconds?: number | undefined;
  /** Numbers as on the command line; the tracing process checks them. */
  seed?: string | undefined;
  version?: string | undefined;
  jobs?: string | undefined;
  /** Ends the trace. */
  signal?: AbortSignal | undefined;
  onEvent: (event: TraceEvent) => void;
}

/** Exit code of `python -m tracing` for a wrong command line. */
const USAGE_EXIT = 2;

/** Events that `python -m tracing` prints, one per line. */
export type TraceEvent =
  | { event: 'start'; model: string; version: number }
  | { event: 'progress'; model: string; step: string }
  /** A possible mistake, with the line of the user's file if known. */
  | { event: 'warning'; model: string; text: string }
  | ({ event: 'done'; model: string; seconds: number } & TraceResult)
  | ({ event: 'up-to-date'; model: string } & TraceResult)
  | { event: 'nothing'; model: string }
  /** `files` of the model's weights.yaml were downloaded. */
  | { event: 'fetched'; model: string; files: number }
  | { event: 'failed'; model: string; error: string; hint?: string | null };

/** The content of <artifact>.trace.json. */
export interface TraceResult {
  version: number;
  artifact: string;
  bytes: number;
  weights: { kind: 'pretrained' | 'random' | 'none'; description: string };
  /** Quick: only the golden requests were compared with PyTorch. Only thoroughly checked artifacts go to a stack. */
  checked: 'quick' | 'thorough';
  check: {
    tolerance: number;
    rtol: number;
    atol: number;
    max_abs_diff: number;
    /** Elements with |a - b| > atol + rtol * |b|. */
    exceeding: number;
    elements: number;
    /** Positions of outputs that had no elements for all inputs of the comparison. */
    empty_outputs: number[];
  };
}

/**
 * Downloads the files that weights.yaml files name, and traces or exports the models whose trace.py has no up-to-date
 * artifact.
 * @throws UserError that names each failed model
 */
export async function traceModels(options: TraceOptions): Promise<void> {
  const failures: Problem[] = [];
  const unfinished = new Set<string>();
  const ignoreMade = (model: string): void => {
    const folder = join(options.repository, model);
    ignoreMadeFiles(
      folder,
      readWeightsFile(folder, []).flatMap(({ file }) => file ?? []),
    );
  };
  // "npm run local" traces an edited model too; one of the two then finds the other's result.
  const { signal } = options;
  const release =
    options.background === true ? undefined : await acquireLock(lockFile(options.repository), 'the traces', { signal });
  try {
    const found = await fetchAll(options);
    const args = ['-m', 'tracing', '--repo', resolve(options.repository)];
    if (options.models !== undefined) args.push('--models', options.models.join(','));
    if (options.exclude !== undefined) args.push('--exclude', options.exclude.join(','));
    for (const weights of [...options.weights, ...found]) args.push('--weights', absoluteWeights(weights));
    if (options.force === true) args.push('--force');
    if (options.limitSeconds !== undefined) args.push(`--limit=${options.limitSeconds}`);
    for (const flag of ['quick', 'background'] as const) if (options[flag] === true) args.push(`--${flag}`);
    for (const name of ['seed', 'version', 'jobs'] as const) {
      const value = options[name];
      if (value !== undefined) args.push(`--${name}=${value}`);
    }
    await exec(options.python, args, {
      cwd: paths.python,
      signal,
      env: {
        ...CPU_VARIABLES,
        ...process.env,
        PYTHONPATH: tracingPath(),
        // PyTorch stores the constants of a scripted module in the order of a set, which depends on the seed of hashes.
        PYTHONHASHSEED: '0',
        // Installs the packages of a requirements.txt.
        TRITON_SERVING_UV: getUv(options.python),
      },
      onStdoutLine: (line) => {
        const event = parseEvent(line);
        if (event === undefined) return;
        if (event.event === 'start') unfinished.add(event.model);
        if (event.event === 'done' || event.event === 'failed') unfinished.delete(event.model);
        if (event.event === 'failed') {
          failures.push({ file: event.model, message: event.error, hint: event.hint ?? undefined });
        }
        // Written immediately, because this process may be killed while the next model is traced.
        if (event.event === 'done') ignoreMade(event.model);
        options.onEvent(event);
      },
    });
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === USAGE_EXIT) throw usageError(error.output.stderr);
    if (!(error instanceof CommandError) || failures.length === 0) throw error;
    throw new UserError('tracing failed', { problems: failures, cause: error });
  } finally {
    release?.();
    foldersIn(options.repository).forEach(ignoreMade);
  }
  // Code of the user can end the process, with any exit code.
  if (unfinished.size > 0) {
    const message = 'the tracing process ended before the model was traced';
    const hint = 'remove sys.exit and os._exit from trace.py and the files that it imports';
    throw new UserError('tracing failed', { problems: [...unfinished].map((file) => ({ file, message, hint })) });
  }
}

/** The lock of the traces of a repository. */
function lockFile(repository: string): string {
  const id = createHash('sha256').update(resolve(repository)).digest('hex').slice(0, 12);
  return join(cacheRoot(), 'traces', `${id}.lock`);
}

/**
 * Downloads the missing files that the weights.yaml files of the chosen models name.
 * @returns MODEL=WEIGHTS for each model whose weights are not set on the command line
 * @throws UserError that names each model whose weights are not available
 */
async function fetchAll({ repository, models, exclude = [], weights, onEvent }: TraceOptions): Promise<string[]> {
  const given = new Set(weights.map((text) => text.split('=')[0]));
  const found: string[] = [];
  const problems: Problem[] = [];
  for (const model of foldersIn(repository)) {
    if (exclude.includes(model) || !(models?.includes(model) ?? true)) continue;
    const folder = join(repository, model);
    const onBytes = (name: string, bytes: number): void =>
      onEvent({ event: 'progress', model, step: `download ${name}, ${formatBytes(bytes)}` });
    try {
      let count = 0;
      for (const download of readWeightsFile(folder, problems)) {
        if (download.file === undefined && given.has(model)) continue;
        const { path, isDownloaded } = await fetchFile(download, { folder, onBytes });
        if (download.file === undefined) found.push(`${model}=${path}`);
        else if (isDownloaded) count += 1;
      }
      if (count > 0) onEvent({ event: 'fetched', model, files: count });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      const { message, hint } = error;
      problems.push({ file: model, message, hint });
    }
  }
  if (problems.length > 0) throw new UserError('cannot get the weights', { problems });
  return found;
}

/** Names of all folders of the repository, models or not. */
function foldersIn(repository: string): string[] {
  if (!existsSync(repository)) return [];
  const entries = readdirSync(repository, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Parses `MESSAGE\n    -> HINT`, or argparse's output: its usage, which is dropped, and a message at the end. */
function usageError(output: string): UsageError {
  const [message = '', hint] = output
    .trim()
    .replace(/^usage: [^]*?: error: /, '')
    .split('\n    -> ');
  return new UsageError(message, { hint });
}

/** Resolves FILE in MODEL=FILE from our working directory. A hub id, which is no existing file, stays unchanged. */
function absoluteWeights(text: string): string {
  const at = text.indexOf('=') + 1;
  return at > 0 && existsSync(text.slice(at)) ? text.slice(0, at) + resolve(text.slice(at)) : text;
}

/** One line about a finished model: its weights, and the difference between the artifact and PyTorch. */
export function describeTrace({ weights, check }: TraceResult): string {
  const difference =
    check.max_abs_diff === 0 ? 'equal to PyTorch' : `differs by at most ${check.max_abs_diff.toExponential(2)}`;
  const beyond = `${check.exceeding} of ${check.elements} elements beyond rtol = atol = ${check.rtol.toExponential(0)}`;
  const empty = check.empty_outputs.map((output) => `; no value of output ${output} was compared: it had no elements`);
  return `${weights.description}; ${difference}, ${beyond}${empty.join('')}`;
}

function parseEvent(line: string): TraceEvent | undefined {
  try {
    return JSON.parse(line) as TraceEvent;
  } catch {
    return undefined; // A library printed something of its own.
  }
}

/** The PYTHONPATH of `python -m tracing` and of the other modules of python/tracing. */
export const tracingPath = (): string => [paths.python, process.env['PYTHONPATH']].filter(Boolean).join(delimiter);
