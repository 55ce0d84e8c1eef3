import { EXIT } from '../src/cli/cli';
import { command } from '../src/cli/command';
import { NAME_SERVERS, TARGET_FLAGS, withTarget, type CommandTarget } from '../src/commands/target';
import { firstLines, formatBytes, formatDuration, formatTable, LONGEST_CELL } from '../src/core/format';
import type { ServedModelState } from '../src/release/agent-api';
import { isAsReleased, repositoryStatus, type ReplicaStatus, type RepositoryStatus } from '../src/publish/status';

const FLAGS = {
  ...TARGET_FLAGS,
  ask: { help: 'send each model its golden requests (or zeros, if it has none) on every replica' },
  differences: { help: 'the same, and print the largest difference of each answer from that of PyTorch' },
  json: { help: 'print the status as JSON' },
} as const;

const LINE = {
  name: 'npm run status',
  about: 'Compares the models that each replica serves with the current release. Changes nothing.',
  flags: FLAGS,
  notes: `Examples:
  npm run status -- --stack prod
  npm run status -- --stack prod --ask
  npm run status -- --bucket s3://my-models/models --triton http://127.0.0.1:8000 --agent http://127.0.0.1:8092 --json

Exit codes: 0 every replica serves the release, 1 a replica differs from it, answers wrongly or cannot be read,
2 wrong command line.`,
};

export const main = command(LINE, async (flags) => {
  return withTarget(flags, async (target) => {
    const found = await repositoryStatus(target, target.replicas, flags);
    const { release, ...rest } = found;
    const summary = { release: release?.id ?? null, asReleased: isAsReleased(found), ...rest };
    if (flags.json) process.stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
    else process.stdout.write(`${describeStatus(target, found)}\n`);
    const isEmpty = target.replicas !== undefined && found.replicas.length === 0;
    if (isEmpty) process.stderr.write(`No replica was found: ${target.replicas?.describe()}\n`);
    return isAsReleased(found) && !isEmpty ? EXIT.ok : EXIT.failed;
  });
});

/** The output without --json. */
export function describeStatus(
  { name, replicas: source }: Pick<CommandTarget, 'name' | 'replicas'>,
  status: RepositoryStatus,
): string {
  const { release, missing, replicas } = status;
  return [
    release === undefined ? `${name} has no release yet.` : `${name} is at release ${release.id} (${release.origin}).`,
    ...firstLines(missing.map((key) => `In the bucket, ${key} is missing`)),
    ...(source === undefined ? [`No replica was checked: ${NAME_SERVERS}.`] : []),
    ...(replicas.length === 0 ? [] : ['', table(replicas)]),
    ...restOfCells(replicas),
    ...(replicas.some(({ answers }) => answers !== undefined) ? ['', answersTable(replicas)] : []),
    ...(differences(replicas).length === 0 ? [] : ['', differencesTable(replicas), '', ABOUT_TF32]),
  ].join('\n');
}

const answersTable = (replicas: readonly ReplicaStatus[]): string =>
  formatTable(
    ['replica', 'model', 'asked', 'result'],
    replicas.flatMap(({ replica, answers = [] }) =>
      answers.map(({ model, ok, result }) => [replica, model, ok ? 'ok' : 'WRONG', firstLine(result)]),
    ),
  );

const differences = (replicas: readonly ReplicaStatus[]): string[][] =>
  replicas.flatMap(({ replica, answers = [] }) =>
    answers.flatMap(({ model, differences = [] }) =>
      differences.map(({ request, tensor, largest, largestExpected, tolerance: { absolute, relative } }) => [
        ...[replica, model, request, tensor, largest.toPrecision(3), largestExpected.toPrecision(3)],
        relative === 0 ? String(absolute) : `${absolute} + ${relative} of the value`,
      ]),
    ),
  );

const differencesTable = (replicas: readonly ReplicaStatus[]): string =>
  formatTable(
    ['replica', 'model', 'request', 'tensor', 'largest difference', 'largest value', 'allowed'],
    differences(replicas),
  );

const ABOUT_TF32 =
  'GPUs since Ampere compute convolutions in TF32, with 10 bits of precision. To measure the difference without TF32, start\n' +
  'the replicas with NVIDIA_TF32_OVERRIDE=0 in their environment and run this command again. See docs/tracing.md#on-a-gpu.';

/** `resnet 1 2 (GPU)` */
const describeModel = ({ name, versions, device }: ServedModelState): string =>
  `${name} ${versions.join(' ')}${device === null ? '' : ` (${device})`}`;

/** What each replica serves, as its agent reports it, and the phases of the start with their times. */
const table = (replicas: readonly ReplicaStatus[]): string =>
  formatTable(
    ['replica', 'state', 'models', 'on disk', 'start'],
    replicas.map(({ replica, problem, agent }) => [
      replica,
      problem === undefined ? `as released, ${agent?.ready === true ? 'READY' : 'NOT READY'}` : firstLine(problem),
      agent?.models.map(describeModel).join(', ') ?? '-',
      agent === undefined ? '-' : formatBytes(agent.bytesOnDisk),
      Object.entries(agent?.startMs ?? {})
        .map(([phase, ms]) => `${phase} ${formatDuration(ms)}`)
        .join(', '),
    ]),
  );

/** A table has room only for the first line of an error. */
const firstLine = (text: string): string => text.split('\n', 1)[0] ?? '';

/** Full text of errors that the tables cut. */
function restOfCells(replicas: readonly ReplicaStatus[]): string[] {
  const texts = replicas.flatMap(({ replica, problem = '', answers = [] }) => [
    [replica, problem],
    ...answers.map(({ model, result }) => [`${replica}, ${model}`, result]),
  ]);
  return texts.flatMap(([where, text = '']) =>
    text.includes('\n') || text.length > LONGEST_CELL ? ['', `${where}: ${text.trim()}`] : [],
  );
}
