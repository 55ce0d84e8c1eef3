import { EXIT, parseInteger } from '../cli/cli';
import { InterruptedError, withInterrupts } from '../cli/interrupts';
import { Progress } from '../cli/progress';
import { UsageError } from '../core/errors';
import { FORMAT } from '../release/format';
import { migrate } from '../publish/trial/migrate';
import { readFormat } from '../publish/trial/mode';
import type { PublishFlags } from './publish-command';
import { withTargetFlags, type CommandTarget } from './target';

/** Flags of a publish, which has no meaning for a migration. */
const PUBLISHING = ['models', 'exclude', 'prune', 'no-load', 'no-ask', 'untried', 'drain', 'message'] as const;

type MigrateFlags = PublishFlags & { models?: string; exclude?: string; prune: boolean };

/** @throws UsageError if a flag of a publish is given, too */
export function requireOnlyMigration(flags: MigrateFlags): void {
  const other = PUBLISHING.find((name) => flags[name] !== undefined && flags[name] !== false);
  if (other === undefined) return;
  throw new UsageError(`--migrate and --${other} cannot be combined`, {
    hint: '--migrate publishes nothing: run it alone, then publish without it',
  });
}

/**
 * Prepares a repository for replicas with an agent, before there are any. What is served stays the same.
 * @throws UserError
 */
export async function runMigration(flags: MigrateFlags, target: CommandTarget): Promise<number> {
  const { store, location, name } = target;
  const options = {
    store,
    location,
    loadTimeoutMs: parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000,
    lockTimeoutMs: parseInteger('lock-timeout', flags['lock-timeout'], 0, 86_400) * 1000,
  };
  const progress = new Progress(process.stderr, flags.quiet);
  const onStage = (text: string): void => progress.line(`     ${withTargetFlags(text, target)}`);
  let isNew = false;
  try {
    await withInterrupts((signal) =>
      progress.run(`prepare ${name} for agents`, async () => {
        if (flags['dry-run']) return;
        const found = (await target.replicas?.list()) ?? [];
        // Servers of a killed publisher are restored. Replicas with an agent restore themselves.
        const replicas = found.some(({ agentUrl }) => agentUrl !== undefined) ? undefined : target.replicas;
        isNew = await migrate({ ...options, replicas, signal, onStage });
      }),
    );
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    process.stderr.write('interrupted; run it again to see whether the repository is migrated\n');
    return EXIT.interrupted;
  }
  const format = await readFormat(store, location);
  const state = format === undefined ? 'empty' : format === FORMAT ? 'ready' : 'old';
  if (flags.json) process.stdout.write(`${JSON.stringify({ dryRun: flags['dry-run'], isNew, state }, null, 2)}\n`);
  else if (!flags.quiet) process.stdout.write(`${name} ${RESULTS[state]}\n`);
  return EXIT.ok;
}

const RESULTS = {
  empty: 'has no release, so there is nothing to migrate: set "agent" in the settings of the stack, then publish.',
  ready: 'is ready for replicas with an agent: set "agent" in the settings of the stack, then run "pulumi up".',
  old: 'has a release that --migrate would convert for replicas with an agent. Dry run: nothing was written.',
} as const;
