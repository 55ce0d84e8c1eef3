import { EXIT } from '../cli/cli';
import { InterruptedError, withInterrupts } from '../cli/interrupts';
import { Progress } from '../cli/progress';
import { UserError } from '../core/errors';
import { formatBytes, formatCount } from '../core/format';
import { HeadFile, newId } from '../publish/head-file';
import { planPrune, prune } from '../publish/prune';
import { Releases } from '../publish/releases';
import { confirmDeletion, indentedList } from './confirm';
import type { CommandTarget } from './target';

export interface PruneFlags {
  yes: boolean;
  'dry-run': boolean;
  json: boolean;
}

/**
 * Deletes the files that no retained release of a repository names.
 * @throws UserError if the deletion is not confirmed
 */
export async function pruneReleases(flags: PruneFlags, target: CommandTarget): Promise<number> {
  const { store, commitStore, location, name } = target;
  const head = new HeadFile(commitStore, location);
  const releases = await Releases.read({ store, location }, head);
  if (releases.current === undefined) {
    throw new UserError(`${name} has no release yet, so there is nothing to delete`, { hint: 'npm run sync-models' });
  }
  const plan = await planPrune(releases, await releases.requireAll(), store, location);
  const forgotten = (releases.base.head?.retained ?? []).filter((id) => !plan.retained.includes(id));
  const deleted = plan.orphans.map(({ key }) => key);
  const bytes = plan.orphans.reduce((sum, orphan) => sum + orphan.bytes, 0);
  const files = `${formatCount(deleted.length, 'object')} (${formatBytes(bytes)})`;
  const progress = new Progress(process.stderr);
  try {
    await withInterrupts(async (signal) => {
      if (flags['dry-run']) return;
      if (deleted.length > 0 && !flags.yes && !(await confirmDeletion(deleted, progress, signal))) {
        throw new UserError('nothing was deleted, because the deletion was not confirmed', {
          hint: 'confirm it with --yes',
        });
      }
      await progress.run(`delete ${files}`, () => prune(releases, plan, { head, store, writer: newId() }));
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
