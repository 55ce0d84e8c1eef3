import { EXIT } from '../cli/cli';
import { Progress } from '../cli/progress';
import { UserError } from '../core/errors';
import { firstLines, formatBytes, formatCount } from '../core/format';
import { HeadFile, newId } from '../publish/head-file';
import { planPrune, prune } from '../publish/prune';
import { Releases } from '../publish/releases';
import type { CommandTarget } from './target';

/** Lists the files that no retained release of a repository names, or deletes them with --yes. */
export async function pruneReleases(flags: { yes: boolean; json: boolean }, target: CommandTarget): Promise<number> {
  const { store, location, name } = target;
  const head = new HeadFile(store, location);
  const releases = await Releases.read({ store, location }, head);
  if (releases.current === undefined) {
    throw new UserError(`${name} has no release yet, so there is nothing to delete`, { hint: 'npm run sync-models' });
  }
  const plan = await planPrune(releases, await releases.requireAll(), store, location);
  const { retained, orphans } = plan;
  const forgotten = releases.ids.filter((id) => !retained.includes(id)).reverse();
  const bytes = orphans.reduce((sum, orphan) => sum + orphan.bytes, 0);
  const files = `${formatCount(orphans.length, 'object')} (${formatBytes(bytes)})`;
  if (flags.yes) {
    const progress = new Progress(process.stderr);
    await progress.run(`delete ${files}`, () => prune(releases, plan, { head, store, writer: newId() }));
  }
  const deleted = orphans.map(({ key }) => key);
  if (flags.json) {
    const result = { dryRun: !flags.yes, retained, forgotten, deleted };
    process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
    return EXIT.ok;
  }
  const lines = [
    `${name} retains ${formatCount(retained.length, 'release')}${forgotten.length === 0 ? '' : `, and no longer ${forgotten.join(', ')}`}.`,
    `${flags.yes ? 'Deleted' : 'To delete'}: ${files}`,
    ...firstLines(deleted).map((line) => `  ${line}`),
    ...(flags.yes ? [] : ['Nothing was deleted; delete them with --yes.']),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
  return EXIT.ok;
}
