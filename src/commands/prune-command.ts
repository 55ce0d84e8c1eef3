import { EXIT } from '../cli/cli';
import { InterruptedError, withInterrupts } from '../cli/interrupts';
import { Progress } from '../cli/progress';
import { UserError } from '../core/errors';
import { formatBytes, formatCount } from '../core/format';
import { HeadFile } from '../publish/trial/head-file';
import { readFormat } from '../publish/trial/mode';
import { newId } from '../publish/trial/new-id';
import { planPrune, prune } from '../publish/trial/prune';
import { readAgentSnapshot, RetainedReleases } from '../publish/trial/snapshot';
import { FORMAT } from '../release/format';
import { formatLocation } from '../release/location';
import { confirmDeletion, indentedList } from './confirm';
import { withTargetFlags, type CommandTarget } from './target';

export interface PruneFlags {
  yes: boolean;
  'dry-run': boolean;
  json: boolean;
}

/**
 * Deletes the files that no retained release of a repository for agents names.
 * @throws UserError if the repository is published without agents, or the deletion is not confirmed
 */
export async function pruneReleases(flags: PruneFlags, target: CommandTarget): Promise<number> {
  const { store, commitStore, location, name } = target;
  if ((await readFormat(store, location)) !== FORMAT) {
    throw new UserError(`${name} has no releases for agents, so there is nothing to choose from`, {
      hint: withTargetFlags('npm run sync-models -- --prune deletes what the current release does not need', target),
    });
  }
  const head = new HeadFile(commitStore, location);
  const snapshot = await readAgentSnapshot(head, formatLocation(location));
  const retained = await new RetainedReleases(snapshot, head, { store, location }).readAll();
  const plan = await planPrune(snapshot, retained, store, location);
  const forgotten = (snapshot.base.head?.retained ?? []).filter((id) => !plan.retained.includes(id));
  const deleted = plan.orphans.map(({ key }) => key);
  const bytes = plan.orphans.reduce((sum, orphan) => sum + orphan.bytes, 0);
  const files = `${formatCount(deleted.length, 'object')} (${formatBytes(bytes)})`;
  const progress = new Progress(process.stderr);
  try {
    await withInterrupts(async (signal) => {
      if (flags['dry-run']) return;
      if (deleted.length > 0 && !flags.yes && !(await confirmDeletion(deleted, [], progress, signal))) {
        throw new UserError('nothing was deleted, because the deletion was not confirmed', {
          hint: 'confirm it with --yes',
        });
      }
      await progress.run(`delete ${files}`, () => prune(snapshot, plan, { head, store, writer: newId() }));
    });
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    process.stderr.write('interrupted; run the command again to delete the rest\n');
    return EXIT.interrupted;
  }
  if (flags.json) {
    const result = { dryRun: flags['dry-run'], retained: plan.retained, forgotten, deleted };
    process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
    return EXIT.ok;
  }
  const lines = [
    `${name} retains ${formatCount(plan.retained.length, 'release')}${forgotten.length === 0 ? '' : `, and no longer ${forgotten.join(', ')}`}.`,
    ...(deleted.length === 0
      ? ['No object is to be deleted.']
      : [`${flags['dry-run'] ? 'To delete' : 'Deleted'}: ${files}`, indentedList(deleted)]),
  ];
  if (flags['dry-run']) lines.push('Dry run: nothing was deleted.');
  process.stdout.write(`${lines.join('\n')}\n`);
  return EXIT.ok;
}
