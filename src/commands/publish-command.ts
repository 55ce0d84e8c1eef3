import { EXIT, parseInteger, parseMinutes } from '../cli/cli';
import type { ValuesOf } from '../cli/command';
import { InterruptedError, withInterrupts } from '../cli/interrupts';
import { Progress } from '../cli/progress';
import { ProgressMeter } from '../cli/progress-meter';
import { formatProblem, UsageError, UserError, type Problem } from '../core/errors';
import { formatBytes, formatTable } from '../core/format';
import { BAKE_DEFAULTS } from '../release/bake';
import type { BakeRules } from '../publish/bake';
import { describeBake, getWeightKind } from '../publish/list-releases';
import type { ReleaseOptions, ReleaseResult } from '../publish/options';
import { isConflict, type Plan, type PlannedFile, type PlannedModel } from '../publish/plan';
import { NAME_SERVERS, withTargetFlags, type CommandTarget } from './target';

/** Flags of every command that publishes: sync-models, rollback, promote. */
export const PUBLISH_FLAGS = {
  'no-ask': { help: 'do not send each model its golden requests (or zeros, if it has none)' },
  untried: { help: 'make the release the current one although no replica has tried it' },
  'unload-first': {
    help: 'for models that do not fit into memory twice: each replica leaves the Service, and unloads changed models before it loads them',
  },
  message: { value: 'TEXT', help: 'message of the release (default: the subject of the current commit)' },
  'load-timeout': { value: 'SECONDS', default: '600', help: 'time for one model to become READY on one replica' },
  wait: { value: 'SECONDS', default: '600', help: 'time to wait for another publisher' },
  sse: {
    value: 'ALGORITHM[:KEY]',
    help: 'encryption to request for each object, if the policy of the bucket requires the header: AES256, aws:kms, or aws:kms:KEY with the id or ARN of a key (default: that of the bucket)',
  },
  'dry-run': { help: 'print the plan; change nothing' },
  json: { help: 'print plan and result as JSON' },
  quiet: { help: 'print errors only' },
} as const;

/** Flags of those that publish what replicas have not served before. */
export const BAKE_FLAGS = {
  bake: {
    value: 'TIME',
    help: 'let the first replica serve the release for this time (30s, 5m, 1h), and go back if it fails more requests or is slower than the others; 0: not (default: bake of the stack file)',
  },
  'bake-without-traffic': {
    value: 'continue|stop',
    default: 'stop',
    help: 'what to do if too few requests arrived to compare the releases',
  },
} as const;

/** The end of their help. */
export const PUBLISH_NOTES = `Exit codes: 0 done; 1 failed, and the replicas serve what they served; 2 wrong command line; 3 incomplete: the message and
"npm run status" report the state; 130 interrupted, and the previous state was restored.
Credentials are read from the same places as by the AWS tools: environment, profile, SSO, role of the pod or machine.`;

export type PublishFlags = ValuesOf<typeof PUBLISH_FLAGS> & Partial<ValuesOf<typeof BAKE_FLAGS>>;

/**
 * Runs a command that publishes: prints progress on stderr, plan and result on stdout. Ctrl-C aborts
 * the command and restores the previous state.
 * @param source the repository that a promoted release comes from
 */
export async function runPublishCommand(
  what: string,
  flags: PublishFlags,
  target: CommandTarget,
  work: (options: ReleaseOptions) => Promise<ReleaseResult>,
  source = target,
): Promise<number> {
  const timeouts = {
    loadTimeoutMs: parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000,
    waitMs: parseInteger('wait', flags.wait, 0, 86_400) * 1000,
  };
  const bake = readBake(flags, target);
  const progress = new Progress(process.stderr, flags.quiet);
  const print = (text: string): void => {
    if (flags.json || flags.quiet) return;
    progress.erase();
    process.stdout.write(text);
  };
  const started = Date.now();
  const warnings = new Map<string, Problem>();
  let made: ReleaseResult;
  try {
    made = await withInterrupts((signal) =>
      progress.run(flags['dry-run'] ? `plan: ${what}` : what, (step) => {
        let transfer = new ProgressMeter(0);
        // While another publisher is waited for, the plan is made again and again.
        const said = { plan: '', line: '' };
        return work({
          agents: target.replicas,
          store: target.store,
          location: target.location,
          untried: flags.untried,
          unloadFirst: flags['unload-first'],
          ...timeouts,
          dryRun: flags['dry-run'],
          noAsk: flags['no-ask'],
          bake,
          onBake: (text) => step.update(text),
          message: flags.message,
          signal,
          onPlan: (plan) => {
            transfer = new ProgressMeter(bytesToWrite(plan));
            const text = describePlan(plan);
            if (text === said.plan) return;
            said.plan = text;
            print(`${text}\n`);
            const random = target.stack === undefined ? [] : randomModels(plan);
            if (random.length > 0)
              progress.line(`     warning: random weights are published to ${target.stack}: ${random.join(', ')}`);
          },
          onWarning: (warning) => {
            const text = formatProblem(warning);
            if (!warnings.has(text)) progress.line(`warning: ${text}`.replace(/^/gm, '     '));
            warnings.set(text, warning);
          },
          onBytes: (key, bytes) => step.update(`${key}, ${transfer.add(bytes)}`),
          onOnlyReplica: (replica) => {
            if (target.adaptToThisMachine !== undefined) return; // Of npm run local.
            progress.line(`     only ${replica} gets requests: ${WITHOUT_SECOND}`);
          },
          onStage: (text) => {
            if (text !== said.line) progress.line(`     ${withTargetFlags(text, target, source)}`);
            said.line = text;
          },
        });
      }),
    );
    const json = { ...asJson(made, flags, Date.now() - started), warnings: [...warnings.values()] };
    if (flags.json) process.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
    else print(`${describeResult(made, flags, target)}\n`);
    return EXIT.ok;
  } catch (error) {
    if (error instanceof InterruptedError) {
      const text = 'interrupted; the repository and the replicas are as they were before';
      if (flags.json) process.stdout.write(`${JSON.stringify({ error: text }, null, 2)}\n`);
      process.stderr.write(`${text}\n`);
      return EXIT.interrupted;
    }
    if (error instanceof UserError) {
      // The library does not know the flags of the target.
      const complete = (text: string): string => withTargetFlags(text, target, source);
      const { problems, hint } = error;
      Object.assign(error, { message: complete(error.message), hint: hint && complete(hint) });
      const json = { error: error.message, hint: error.hint, problems: problems.length === 0 ? undefined : problems };
      if (flags.json) process.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
    }
    throw error;
  }
}

const WITHOUT_SECOND =
  'clients reach the release while it is tried, and find no model while an ensemble and its steps change their interface; with a second replica they would not';

const randomModels = (plan: Plan): string[] =>
  plan.models.filter(({ model }) => getWeightKind(model) === 'random').map(({ model }) => model.name);

/** @throws UsageError */
function readBake(flags: PublishFlags, { cluster }: CommandTarget): BakeRules | undefined {
  const { bake: time, 'bake-without-traffic': withoutTraffic, untried } = flags;
  if (withoutTraffic === undefined) return undefined; // Of a rollback.
  if (withoutTraffic !== 'continue' && withoutTraffic !== 'stop') {
    throw new UsageError(`--bake-without-traffic ${withoutTraffic}: must be continue or stop`);
  }
  const minutes = time === undefined ? (cluster?.bake?.minutes ?? 0) : parseMinutes('bake', time);
  if (time !== undefined && minutes > 0 && untried) {
    throw new UsageError('--bake and --untried exclude each other', {
      hint: 'a bake needs replicas that try the release',
    });
  }
  return minutes > 0 ? { ...BAKE_DEFAULTS, ...cluster?.bake, minutes, withoutTraffic } : undefined;
}

function describePlan(plan: Plan): string {
  const rows = plan.models.map((planned) => {
    const uploads = planned.files.filter(isUpload);
    return [
      planned.model.name,
      servedVersions(planned),
      getAction(planned),
      String(uploads.length),
      formatBytes(sumBytes(uploads)),
      String(planned.files.length - uploads.length),
    ];
  });
  const removed = [...plan.remove].sort().map((name) => [name, '-', 'remove', '0', '0 B', '0']);
  const headings = ['model', 'serves versions', 'action', 'files to upload', 'bytes', 'files kept'];
  return formatTable(headings, [...rows, ...removed]);
}

/** `1 -> 2`, or `2` if the served versions do not change. */
function servedVersions({ model, before }: PlannedModel): string {
  const now = model.served.join(' ');
  return before === undefined || before.join(' ') === now ? now : `${before.join(' ')} -> ${now}`;
}

function getAction(planned: PlannedModel): string {
  if (isConflict(planned)) return 'conflict';
  return planned.isChanged ? 'publish' : 'unchanged';
}

function describeResult(
  { plan, release, isNew, replicas, bake }: ReleaseResult,
  flags: PublishFlags,
  target: CommandTarget,
): string {
  if (flags['dry-run']) return 'Dry run: nothing was written.';
  const servers = flags.untried
    ? 'No replica has tried it, because of --untried.'
    : replicas === undefined
      ? `No replica was asked: ${NAME_SERVERS}.`
      : replicas.length === 0
        ? 'No replica is ready.'
        : `Every replica serves it: ${replicas.join(', ')}.`;
  if (!isNew) return `Nothing to publish: ${target.name} is at release ${release?.id}. ${servers}`;
  const names = plan.models.filter(isChanged).map(({ model }) => `${model.name} ${model.served.join(' ')}`);
  const done = [
    ...(names.length > 0 ? [`serves ${names.join(', ')}`] : []),
    ...(plan.remove.length > 0 ? [`removed ${[...plan.remove].sort().join(', ')}`] : []),
  ].join(', ');
  const baked = bake === undefined ? '' : ` Bake: ${describeBake(bake)}.`;
  return `Release ${release?.id}: ${done === '' ? 'no models' : done}. ${servers}${baked}`;
}

function asJson(
  { plan, release, isNew, replicas, bake }: ReleaseResult,
  flags: PublishFlags,
  milliseconds: number,
): object {
  const files = plan.models.flatMap((planned) => planned.files.map((file) => ({ ...file, model: planned.model.name })));
  const uploaded = files.filter(isUpload);
  return {
    dryRun: flags['dry-run'],
    release: release?.id ?? null,
    isNew,
    changed: plan.models.filter(isChanged).map(({ model }) => model.name),
    removed: plan.remove,
    models: plan.models.map((planned) => ({
      name: planned.model.name,
      action: getAction(planned),
      before: planned.before ?? [],
      serves: planned.model.served,
    })),
    replicas: replicas ?? null,
    bake: bake ?? null,
    uploaded: uploaded.map(({ model, file: { path, bytes } }) => ({ key: `${model}/${path}`, bytes })),
    kept: files.length - uploaded.length,
    milliseconds,
  };
}

const isChanged = (planned: PlannedModel): boolean => planned.isChanged;

const isUpload = ({ action }: PlannedFile): boolean => action === 'upload';

const sumBytes = (files: readonly PlannedFile[]): number => files.reduce((sum, { file }) => sum + file.bytes, 0);

const bytesToWrite = (plan: Plan): number => sumBytes(plan.models.flatMap(({ files }) => files).filter(isUpload));
