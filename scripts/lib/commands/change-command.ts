import { EXIT, parseInteger } from '../cli';
import { UsageError } from '../errors';
import { formatBytes, formatDuration, formatTable } from '../format';
import { Progress } from '../progress';
import type { ChangeOptions, Changed } from '../publish/change';
import { isChanged, type Plan, type PlannedObject } from '../publish/plan';
import { Interrupted, withInterrupts } from './interrupts';
import type { CommandTarget } from './target';
import { Transfer } from './transfer';

/** Flags of every command that changes what is published: sync-models, rollback, promote. */
export const CHANGE_FLAGS = {
  'no-load': { type: 'boolean', default: false },
  'load-timeout': { type: 'string', default: '600' },
  'lock-timeout': { type: 'string', default: '600' },
  concurrency: { type: 'string', default: '32' },
  'dry-run': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  quiet: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

export const CHANGE_HELP = `  --no-load                  change the repository only; servers are not told
  --load-timeout SECONDS     for one model to become READY on one server (default: 600)
  --lock-timeout SECONDS     to wait for another publisher (default: 600)
  --concurrency N            S3 requests at a time (default: 32)
  --dry-run                  show what would be done, write nothing
  --json                     plan and result as JSON on stdout
  --quiet                    no progress; errors only
  --yes                      do not ask before something is deleted
  --help

Exit codes: 0 done, 1 failed and everything is as it was before, 2 wrong command line, 130 interrupted (and as it was before).
Credentials come from where the AWS tools look for them: environment, profile, SSO, the role of a pod or machine.
`;

export interface ChangeFlags {
  'no-load': boolean;
  'load-timeout': string;
  'lock-timeout': string;
  concurrency: string;
  'dry-run': boolean;
  json: boolean;
  quiet: boolean;
  yes: boolean;
}

export const parseConcurrency = (flags: ChangeFlags): number => parseInteger('concurrency', flags.concurrency, 1, 256);

/**
 * The frame of a command that changes what is published: progress on stderr, plan and result on stdout, Ctrl-C ends it
 * in order.
 */
export async function runChange(
  title: string,
  flags: ChangeFlags,
  target: CommandTarget,
  work: (options: ChangeOptions) => Promise<Changed>,
): Promise<number> {
  const timeouts = {
    loadTimeoutMs: parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000,
    lockTimeoutMs: parseInteger('lock-timeout', flags['lock-timeout'], 0, 86_400) * 1000,
  };
  const progress = new Progress(process.stderr, flags.quiet);
  const print = (text: string): void => {
    if (flags.json || flags.quiet) return;
    progress.erase();
    process.stdout.write(text);
  };
  const started = Date.now();
  try {
    const changed = await withInterrupts((signal) =>
      progress.run(title, (step) => {
        let transfer = new Transfer(0);
        return work({
          store: target.store,
          location: target.location,
          replicas: flags['no-load'] ? undefined : target.replicas,
          ...timeouts,
          dryRun: flags['dry-run'],
          signal,
          onPlan: (plan) => {
            transfer = new Transfer(bytesToWrite(plan));
            print(`${describePlan(plan)}\n`);
          },
          confirmPrune: (keys) => (flags.yes ? Promise.resolve(true) : confirm(keys, progress)),
          onBytes: (_, bytes) => step.update(transfer.add(bytes)),
          onStage: (text) => progress.line(`     ${text}`),
          onReady: (replica, model, ms) => {
            step.update(`load on ${replica}`);
            progress.line(`     ${replica}: ${model} READY (${formatDuration(ms)})`);
          },
          onUnloaded: (replica, model) => progress.line(`     ${replica}: ${model} unloaded`),
          onWaiting: (replicas) => step.update(`wait for ${replicas.join(', ')} to start`),
        });
      }),
    );
    if (flags.json) process.stdout.write(`${JSON.stringify(asJson(changed, flags, Date.now() - started), null, 2)}\n`);
    else print(`${describeResult(changed, flags, target)}\n`);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    process.stderr.write('interrupted; what is served is what was served before\n');
    return EXIT.interrupted;
  }
}

function describePlan(plan: Plan): string {
  const rows = plan.models.map((planned) => {
    const all = [...planned.objects, planned.config];
    const written = all.filter(isWritten);
    return [
      planned.model.name,
      planned.model.served.join(' '),
      isChanged(planned) ? 'publish' : 'unchanged',
      String(written.length),
      formatBytes(sumBytes(written)),
      String(all.length - written.length),
    ];
  });
  const removed = plan.remove.map((name) => [name, '-', 'remove', '0', '0 B', '0']);
  const table = formatTable(
    ['model', 'serves versions', 'action', 'objects to write', 'bytes', 'objects kept'],
    [...rows, ...removed],
  );
  if (plan.prune.length === 0) return table;
  return `${table}\nObjects to delete: ${plan.prune.length}\n${listed(plan.prune)}`;
}

function listed(keys: readonly string[], most = 20): string {
  const shown = keys.slice(0, most).map((key) => `  ${key}`);
  return [...shown, ...(keys.length > most ? [`  and ${keys.length - most} more`] : [])].join('\n');
}

function describeResult({ plan, release, isNew }: Changed, flags: ChangeFlags, target: CommandTarget): string {
  if (flags['dry-run']) return 'Dry run: nothing was written.';
  const loaded = flags['no-load'] || target.replicas === undefined ? 'No server was told.' : 'Every replica serves it.';
  if (!isNew) return `Nothing to publish: ${target.name} is at release ${release?.id}. ${loaded}`;
  const names = plan.models.filter(isChanged).map(({ model }) => model.name);
  const done = [
    ...(names.length > 0 ? [`published ${names.join(', ')}`] : []),
    ...(plan.remove.length > 0 ? [`removed ${plan.remove.join(', ')}`] : []),
  ].join(', ');
  return `Release ${release?.id}: ${done === '' ? 'as found' : done}. ${loaded}`;
}

function asJson({ plan, release, isNew }: Changed, flags: ChangeFlags, milliseconds: number): object {
  const objects = plan.models.flatMap((planned) => [...planned.objects, planned.config]);
  const written = objects.filter(isWritten).map(({ object: { key, bytes }, action }) => ({ key, bytes, action }));
  return {
    dryRun: flags['dry-run'],
    release: release?.id ?? null,
    isNew,
    changed: plan.models.filter(isChanged).map(({ model }) => model.name),
    removed: plan.remove,
    written,
    deleted: plan.prune,
    kept: objects.length - written.length,
    milliseconds,
  };
}

const isWritten = ({ action }: PlannedObject): boolean => action === 'upload' || action === 'replace';

const sumBytes = (objects: readonly PlannedObject[]): number =>
  objects.reduce((sum, { object }) => sum + object.bytes, 0);

const bytesToWrite = (plan: Plan): number =>
  sumBytes(plan.models.flatMap(({ objects, config }) => [...objects, config].filter(isWritten)));

async function confirm(keys: readonly string[], progress: Progress): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new UsageError(`${keys.length} objects would be deleted, and there is no terminal to ask on`, {
      hint: 'say --yes, or look at the list first with --dry-run',
    });
  }
  progress.erase();
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`Delete ${keys.length} objects from the bucket? (yes/no) `);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
