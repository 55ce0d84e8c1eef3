import { EXIT, parseInteger } from '../cli/cli';
import { formatProblem, UsageError, UserError, type Problem } from '../core/errors';
import { formatBytes, formatCount, formatDuration, formatTable } from '../core/format';
import { Progress } from '../cli/progress';
import type { ApplyOptions, ApplyResult } from '../publish/apply/options';
import { getModelName } from '../publish/keys';
import {
  isChanged,
  isConflict,
  getObjects,
  type Plan,
  type PlannedModel,
  type PlannedObject,
} from '../publish/plan/plan';
import { getWeightKind } from '../publish/release/list';
import { stillLoadedError, type RolloutResult } from '../publish/apply/rollout';
import { InterruptedError, withInterrupts } from '../cli/interrupts';
import { findMode } from '../publish/trial/mode';
import type { Encryption } from '../s3/store';
import { confirmDeletion, indentedList } from './confirm';
import { NAME_SERVERS, withTargetFlags, type CommandTarget, type StoreFlags } from './target';
import { ProgressMeter } from '../cli/progress-meter';

/** Flags of every command that publishes: sync-models, rollback, promote. */
export const PUBLISH_FLAGS = {
  'no-load': { type: 'boolean', default: false },
  'no-ask': { type: 'boolean', default: false },
  untried: { type: 'boolean', default: false },
  'unload-first': { type: 'boolean', default: false },
  message: { type: 'string' },
  'load-timeout': { type: 'string', default: '600' },
  wait: { type: 'string', default: '600' },
  sse: { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  quiet: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

export const PUBLISH_HELP = `  --no-load                  publish to the repository only; do not load models on the replicas
  --no-ask                   do not send each model its golden requests (or zeros, if it has none)
  --untried                  of replicas with agents: make the release the current one although no replica has tried it;
                             --no-load does the same
  --unload-first             of replicas with agents, for models that do not fit into memory twice: each replica leaves the
                             Service and unloads changed models before it loads them
  --message TEXT             message of the release (default: the subject of the current commit)
  --load-timeout SECONDS     time for one model to become READY on one replica (default: ${PUBLISH_FLAGS['load-timeout'].default})
  --wait SECONDS             time to wait for another publisher (default: ${PUBLISH_FLAGS.wait.default})
  --sse ALGORITHM[:KEY]      encryption to request for each object, if the policy of the bucket requires the header: AES256,
                             aws:kms, or aws:kms:KEY with the id or ARN of a key (default: that of the bucket)
  --dry-run                  print the plan; change nothing
  --json                     print plan and result as JSON
  --quiet                    print errors only
  --help                     print this text

Exit codes: 0 done; 1 failed, and the previous state was restored; 2 wrong command line; 3 incomplete: the message and
"npm run status" report the state; 130 interrupted, and the previous state was restored.
Credentials are read from the same places as by the AWS tools: environment, profile, SSO, role of the pod or machine.
`;

export interface PublishFlags {
  'no-load': boolean;
  'no-ask': boolean;
  untried: boolean;
  'unload-first': boolean;
  message?: string;
  'load-timeout': string;
  wait: string;
  sse?: string;
  'dry-run': boolean;
  json: boolean;
  quiet: boolean;
  /** Of commands that delete: do not ask for confirmation. */
  yes?: boolean;
}

/** The options of the store that publishes. */
export function parseStoreFlags(flags: PublishFlags): StoreFlags {
  return { encryption: flags.sse === undefined ? undefined : parseEncryption(flags.sse) };
}

function parseEncryption(text: string): Encryption {
  const [, algorithm, key] = /^(AES256|aws:kms:dsse|aws:kms)(?::(.+))?$/.exec(text) ?? [];
  if (algorithm === undefined || (algorithm === 'AES256' && key !== undefined)) {
    throw new UsageError(`--sse ${text}: unknown encryption`, { hint: 'AES256, aws:kms, or aws:kms:KEY' });
  }
  return { algorithm: algorithm as Encryption['algorithm'], key };
}

/**
 * Runs a command that publishes: prints progress on stderr, plan and result on stdout. Ctrl-C aborts
 * the command and restores the previous state.
 * @param source the repository that a promoted release comes from
 */
export async function runPublishCommand(
  what: string,
  flags: PublishFlags,
  target: CommandTarget,
  work: (options: ApplyOptions) => Promise<ApplyResult>,
  source = target,
): Promise<number> {
  const timeouts = {
    loadTimeoutMs: parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000,
    lockTimeoutMs: parseInteger('wait', flags.wait, 0, 86_400) * 1000,
  };
  const progress = new Progress(process.stderr, flags.quiet);
  const print = (text: string): void => {
    if (flags.json || flags.quiet) return;
    progress.erase();
    process.stdout.write(text);
  };
  const started = Date.now();
  const warnings = new Map<string, Problem>();
  let changed: ApplyResult;
  try {
    changed = await withInterrupts((signal) =>
      progress.run(flags['dry-run'] ? `plan: ${what}` : what, async (step) => {
        const agents = await findMode(target.store, target.location, target.replicas);
        if (agents === undefined && flags['unload-first']) {
          throw new UsageError('--unload-first: only agents unload models first, and no replica has one', {
            hint: 'omit --unload-first, or set "agent" in the settings of the stack',
          });
        }
        let transfer = new ProgressMeter(0);
        let warned = false;
        return work({
          agents,
          commitStore: target.commitStore,
          untried: flags.untried || flags['no-load'],
          unloadFirst: flags['unload-first'],
          store: target.store,
          location: target.location,
          replicas: flags['no-load'] ? undefined : target.replicas,
          ...timeouts,
          dryRun: flags['dry-run'],
          noAsk: flags['no-ask'],
          message: flags.message,
          signal,
          onPlan: (plan) => {
            transfer = new ProgressMeter(bytesToWrite(plan));
            print(`${describePlan(plan)}\n`);
            const random = target.stack === undefined ? [] : randomModels(plan);
            // The plan is made again after waiting for another publisher.
            if (random.length > 0 && !warned)
              progress.line(`     warning: random weights are published to ${target.stack}: ${random.join(', ')}`);
            warned = true;
          },
          confirmPrune: (plan) =>
            flags.yes === true
              ? Promise.resolve(true)
              : confirmDeletion(plan.prune, warningOfLoss(plan), progress, signal),
          onWarning: (warning) => {
            const text = formatProblem(warning);
            if (!warnings.has(text)) progress.line(`warning: ${text}`.replace(/^/gm, '     '));
            warnings.set(text, warning);
          },
          onBytes: (key, bytes) => step.update(`${key}, ${transfer.add(bytes)}`),
          onStage: (text) => progress.line(`     ${withTargetFlags(text, target, source)}`),
          onLoading: (replica, model) => step.update(`load ${model} on ${replica}`),
          onReady: (replica, model, ms) => progress.line(`     ${replica}: ${model} READY (${formatDuration(ms)})`),
          onAsked: (replica, model, result) => progress.line(`     ${replica}: ${model} ${result}`),
          onUnloading: (replica, model) => step.update(`unload ${model} on ${replica}`),
          onUnloaded: (replica, model) => progress.line(`     ${replica}: ${model} unloaded`),
          onWaiting: (replicas) => step.update(`wait for ${replicas.join(', ')} to start`),
        });
      }),
    );
    const json = { ...asJson(changed, flags, Date.now() - started), warnings: [...warnings.values()] };
    if (flags.json) process.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
    else print(`${describeResult(changed, flags, target)}\n`);
  } catch (error) {
    if (error instanceof InterruptedError) {
      process.stderr.write('interrupted; the repository and the replicas are as they were before\n');
      return EXIT.interrupted;
    }
    if (error instanceof UserError) completeError(error, flags, target, source);
    throw error;
  }
  const { stillLoaded = [], release } = changed;
  if (stillLoaded.length === 0) return EXIT.ok;
  throw stillLoadedError(
    `release ${release?.id} is active, but not every removed model could be unloaded`,
    stillLoaded,
  );
}

/** Models with a served version that has random weights. */
const randomModels = (plan: Plan): string[] =>
  plan.models.filter(({ model }) => getWeightKind(model) === 'random').map(({ model }) => model.name);

function describePlan(plan: Plan): string {
  const rows = plan.models.map((planned) => {
    const all = getObjects(planned);
    const written = all.filter(isWritten);
    return [
      planned.model.name,
      servedVersions(planned),
      getAction(planned, plan),
      String(written.length),
      formatBytes(sumBytes(written)),
      String(all.length - written.length),
    ];
  });
  const removed = [...plan.remove].sort().map((name) => [name, '-', 'remove', '0', '0 B', '0']);
  const table = formatTable(
    ['model', 'serves versions', 'action', 'objects to write', 'bytes', 'objects kept'],
    [...rows, ...removed],
  );
  if (plan.prune.length === 0) return table;
  const what = plan.archivePruned ? 'Objects to archive (a rollback can restore them)' : 'Objects to delete';
  return [table, `${what}: ${plan.prune.length}`, indentedList(plan.prune), ...warningOfLoss(plan)].join('\n');
}

/** Warns of releases that no rollback can restore after the deletion. */
const warningOfLoss = ({ lost }: Plan): string[] =>
  lost.length === 0
    ? []
    : [
        `After the deletion no rollback can restore a release that serves ${lost.join(', ')}, because the bucket keeps no copy of these files.`,
      ];

/** `1 -> 2`, or `2` if the served versions do not change. */
function servedVersions({ model, before }: PlannedModel): string {
  const now = model.served.join(' ');
  return before === undefined || before.join(' ') === now ? now : `${before.join(' ')} -> ${now}`;
}

function getAction(planned: PlannedModel, plan: Plan): string {
  if (isConflict(planned)) return 'conflict';
  if (isChanged(planned)) return 'publish';
  return plan.prune.some((key) => getModelName(key) === planned.model.name) ? 'prune' : 'unchanged';
}

function describeResult(
  { plan, release, isNew, replicas, asked }: ApplyResult,
  flags: PublishFlags,
  target: CommandTarget,
): string {
  if (flags['dry-run']) return 'Dry run: nothing was written.';
  const servers = flags['no-load']
    ? 'No replica was updated, because of --no-load.'
    : flags.untried
      ? 'No replica has tried it, because of --untried.'
      : describeServers(replicas, target);
  if (!isNew) return `Nothing to publish: ${target.name} is at release ${release?.id}. ${servers}`;
  const names = plan.models.filter(isChanged).map(({ model }) => `${model.name} ${model.served.join(' ')}`);
  const done = [
    ...(names.length > 0 ? [`serves ${names.join(', ')}`] : []),
    ...(plan.remove.length > 0 ? [`removed ${[...plan.remove].sort().join(', ')}`] : []),
    ...(plan.prune.length > 0
      ? [`${formatCount(plan.prune.length, 'object')} ${plan.archivePruned ? 'archived' : 'deleted'}`]
      : []),
  ].join(', ');
  const rest = (asked?.size ?? 0) > 0 ? 'golden requests changed' : 'records the models that the bucket already had';
  return `Release ${release?.id}: ${done === '' ? rest : done}. ${servers}`;
}

function describeServers(replicas: RolloutResult | undefined, target: CommandTarget): string {
  if (replicas === undefined) return `No replica was updated: ${NAME_SERVERS}.`;
  const { settled, starting } = replicas;
  if (settled.length + starting.length === 0) return `No replica was found: ${target.replicas?.describe()}.`;
  const done = `${formatCount(settled.length, 'replica')} ${settled.length === 1 ? 'serves' : 'serve'} it`;
  if (starting.length === 0) return `Every replica serves it: ${settled.join(', ')}.`;
  return `${done}. Not verified, because still starting: ${starting.join(', ')}.`;
}

/** Adds the flags of the target to the commands in an error, and prints it with --json. */
export function completeError(
  error: UserError,
  { json }: Pick<PublishFlags, 'json'>,
  target: CommandTarget,
  source = target,
): void {
  const { message, hint } = error;
  Object.assign(error, {
    message: withTargetFlags(message, target, source),
    hint: hint === undefined ? undefined : withTargetFlags(hint, target, source),
  });
  if (json) process.stdout.write(`${JSON.stringify(errorAsJson(error), null, 2)}\n`);
}

function errorAsJson(error: UserError): object {
  const { message, hint, problems } = error;
  return { error: message, hint, problems: problems.length === 0 ? undefined : problems };
}

function asJson(
  { plan, release, isNew, replicas, asked, stillLoaded = [] }: ApplyResult,
  flags: PublishFlags,
  milliseconds: number,
): object {
  const objects = plan.models.flatMap(getObjects);
  const written = objects.filter(isWritten).map(({ object: { key, bytes }, action }) => ({ key, bytes, action }));
  return {
    dryRun: flags['dry-run'],
    release: release?.id ?? null,
    isNew,
    changed: plan.models.filter(isChanged).map(({ model }) => model.name),
    removed: plan.remove,
    models: plan.models.map((planned) => ({
      name: planned.model.name,
      action: getAction(planned, plan),
      before: planned.before ?? [],
      serves: planned.model.served,
    })),
    replicas: replicas ?? null,
    asked: Object.fromEntries(asked ?? []),
    stillLoaded,
    written,
    deleted: plan.prune,
    kept: objects.length - written.length,
    milliseconds,
  };
}

const isWritten = ({ action }: PlannedObject): boolean => action === 'upload' || action === 'replace';

const sumBytes = (objects: readonly PlannedObject[]): number =>
  objects.reduce((sum, { object }) => sum + object.bytes, 0);

const bytesToWrite = (plan: Plan): number => sumBytes(plan.models.flatMap(getObjects).filter(isWritten));
