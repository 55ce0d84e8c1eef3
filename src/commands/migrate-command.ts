import { EXIT, parseInteger } from '../cli/cli';
import { InterruptedError, withInterrupts } from '../cli/interrupts';
import { Progress } from '../cli/progress';
import type { ReplicaSource } from '../cluster/source';
import { UsageError, UserError } from '../core/errors';
import { FORMAT } from '../release/format';
import { readSnapshot } from '../publish/plan/snapshot';
import { isAsReleased, repositoryStatus } from '../publish/status';
import { migrate, requireMigratable } from '../publish/trial/migrate';
import { readFormat } from '../publish/trial/mode';
import { completeError, type PublishFlags } from './publish-command';
import { withTargetFlags, type CommandTarget, type TargetFlags } from './target';

/** Flags of a publish, and of servers that never get an agent. */
const REFUSED = [
  ...(['local', 'triton', 'models', 'exclude', 'prune'] as const),
  ...(['no-load', 'no-ask', 'untried', 'unload-first', 'message'] as const),
];

type MigrateFlags = PublishFlags & Pick<TargetFlags, 'local' | 'triton'> & Selected;
interface Selected {
  models?: string;
  exclude?: string;
  prune?: boolean;
}

/** @throws UsageError if a flag is given that has no meaning for a migration */
export function requireOnlyMigration(flags: MigrateFlags): void {
  const other = REFUSED.find((name) => flags[name] !== undefined && flags[name] !== false);
  if (other === undefined) return;
  throw new UsageError(`--migrate and --${other} cannot be combined`, {
    hint: '--migrate publishes nothing, and is for the repository of a stack: omit one of them',
  });
}

type State = 'empty' | 'old' | 'ready';

/**
 * Prepares a repository for replicas with an agent, before there are any. What is served stays the same, also when the
 * replicas get agents: so the bucket and the replicas must match the current release.
 * @throws UserError
 */
export async function runMigration(flags: MigrateFlags, target: CommandTarget): Promise<number> {
  const { store, location, name } = target;
  const timeouts = {
    loadTimeoutMs: parseInteger('load-timeout', flags['load-timeout'], 1, 86_400) * 1000,
    lockTimeoutMs: parseInteger('wait', flags.wait, 0, 86_400) * 1000,
  };
  const progress = new Progress(process.stderr, flags.quiet);
  const onStage = (text: string): void => progress.line(`     ${withTargetFlags(text, target)}`);
  const getState = async (): Promise<State> => {
    const format = await readFormat(store, location);
    return format === undefined ? 'empty' : format === FORMAT ? 'ready' : 'old';
  };
  try {
    const { isNew, state } = await withInterrupts((signal) =>
      progress.run(`${flags['dry-run'] ? 'plan: ' : ''}prepare ${name} for agents`, async () => {
        if ((await getState()) === 'ready') return { isNew: false, state: 'ready' as const };
        const seen = await readSnapshot(store, location);
        await requireMigratable(seen, { store, location });
        const status = await repositoryStatus(store, location, target.replicas && withoutAgent(target.replicas));
        if (!isAsReleased(status)) {
          throw new UserError(`not every replica serves the current release of ${name}, and nothing else`, {
            hint: 'npm run status shows the differences; npm run sync-models without --migrate repairs most of them',
          });
        }
        if (flags['dry-run']) return { isNew: false, state: await getState() };
        const options = { store, location, replicas: undefined, ...timeouts, signal, onStage };
        const migrated = await migrate(options, (now) => requireMigratable(now, options));
        return { isNew: migrated, state: await getState() };
      }),
    );
    if (flags.json) process.stdout.write(`${JSON.stringify({ dryRun: flags['dry-run'], isNew, state }, null, 2)}\n`);
    else if (!flags.quiet) process.stdout.write(`${name} ${RESULTS[state]}\n`);
    return EXIT.ok;
  } catch (error) {
    if (error instanceof InterruptedError) {
      process.stderr.write('interrupted; run it again to see whether the repository is migrated\n');
      return EXIT.interrupted;
    }
    if (error instanceof UserError) completeError(error, flags, target);
    throw error;
  }
}

/** Replicas with an agent serve nothing yet. */
const withoutAgent = (replicas: ReplicaSource): ReplicaSource => ({
  ...{ describe: () => replicas.describe(), close: () => replicas.close() },
  list: async () => (await replicas.list()).filter(({ agentUrl }) => agentUrl === undefined),
});

const RESULTS: Readonly<Record<State, string>> = {
  empty: 'has no models, so there is nothing to migrate: set "agent" in the settings of the stack, then publish.',
  ready: 'is ready for replicas with an agent: set "agent" in the settings of the stack, then run "pulumi up".',
  old: 'has a release that --migrate would convert for replicas with an agent. Dry run: nothing was written.',
};
