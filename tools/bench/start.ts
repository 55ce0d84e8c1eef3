import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { exec } from '../../src/core/exec';
import { formatDuration } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { FREE_PORTS } from './local-models';
import { print } from './print';

interface LocalJson {
  steps: { name: string; milliseconds: number }[];
  milliseconds: number;
}

/**
 * Measures `npm run local` twice, the first time without any cache, downloads or traced models, all in temporary
 * folders.
 */
export async function benchStart(): Promise<object> {
  const scratch = mkdtempSync(join(tmpdir(), 'triton-serving-bench-'));
  try {
    const repository = join(scratch, 'model-repo');
    cpSync(paths.modelRepository, repository, {
      recursive: true,
      filter: (path) => !/^\d+$/.test(basename(path)) || path.includes('ens_'),
    });
    const run = async (): Promise<LocalJson> => {
      const args = [join(paths.scripts, 'run.mjs'), 'local', '--once', '--json', '--repo', repository];
      for (const flag of Object.keys(FREE_PORTS)) args.push(`--${flag}`, '0');
      const { stdout } = await exec(process.execPath, args, {
        env: { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache') },
        onStderrLine: (line) => process.stderr.write(`${line}\n`),
      });
      return JSON.parse(stdout) as LocalJson;
    };
    const runs = { fresh: await run(), second: await run() };
    const steps = runs.fresh.steps.map(({ name, milliseconds }, i) => [
      name,
      formatDuration(milliseconds),
      formatDuration(runs.second.steps[i]?.milliseconds ?? NaN),
    ]);
    const total = [
      'all, with what ran side by side',
      formatDuration(runs.fresh.milliseconds),
      formatDuration(runs.second.milliseconds),
    ];
    print('npm run local, by step', ['step', 'fresh', 'second run'], [...steps, total]);
    return { fresh: pick(runs.fresh), second: pick(runs.second) };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function pick({ steps, milliseconds }: LocalJson): LocalJson {
  return { steps, milliseconds };
}
