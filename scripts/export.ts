import { join, resolve, sep } from 'node:path';
import { EXIT, parseFlags, parseSelection, runCommand } from '../src/cli/cli';
import { UsageError } from '../src/core/errors';
import { exportModels } from '../src/model/export';
import { formatBytes, formatCount } from '../src/core/format';
import { readSoundRepository } from '../src/model';
import { displayPath } from '../src/model/paths';
import { paths } from '../src/core/paths';

const HELP = `Makes a folder that any Triton serves: each model's config.pbtxt, versions and files.
compose.yaml mounts it, and "docker build --target bundled" puts it into the image.

  npm run export -- [options]

  --out DIR      the folder (default: build/repository); new, empty or made by this command
  --repo DIR     model repository to export (default: model-repo)
  --models A,B   only these; what an ensemble is made of comes along
  --exclude A,B  all but these
  --help

Afterwards the folder holds these models and no others. Exit codes: 0 done, 1 failed, 2 wrong command line.
`;

export async function main(argv: readonly string[]): Promise<number> {
  return runCommand(() => exportRepository(argv));
}

async function exportRepository(argv: readonly string[]): Promise<number> {
  const flags = parseFlags(argv, {
    out: { type: 'string', default: join(paths.root, 'build', 'repository') },
    repo: { type: 'string', default: paths.modelRepository },
    models: { type: 'string' },
    exclude: { type: 'string' },
    help: { type: 'boolean', default: false },
  });
  if (flags.help) {
    process.stdout.write(HELP);
    return EXIT.ok;
  }
  const out = resolve(flags.out);
  if (`${out}${sep}`.startsWith(`${resolve(flags.repo)}${sep}`)) {
    throw new UsageError(
      `--out ${flags.out} lies in the model repository ${flags.repo}, where every folder is a model`,
      {
        hint: 'name a folder outside of it',
      },
    );
  }
  const purpose = 'exported; nothing was written';
  const { models, added } = await readSoundRepository(flags.repo, parseSelection(flags), purpose);
  const { bytes, removed } = await exportModels(models, out);
  if (added.length > 0) process.stdout.write(`Added, because an ensemble needs them: ${added.join(', ')}\n`);
  if (removed.length > 0) process.stdout.write(`Removed: ${removed.join(', ')}\n`);
  process.stdout.write(
    `Exported ${formatCount(models.length, 'model')} (${formatBytes(bytes)}) to ${displayPath(out)}\n`,
  );
  return EXIT.ok;
}
