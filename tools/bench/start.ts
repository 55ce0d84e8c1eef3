import { cpSync } from 'node:fs';
import { basename, join } from 'node:path';
import { exec } from '../../src/core/exec';
import { formatDuration } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { print } from './compare';
import { inScratch } from './scratch';

interface LocalJson {
  steps: { name: string; milliseconds: number }[];
  milliseconds: number;
}

/**
 * Measures `npm run local` twice, the first time without any cache, downloads or traced models, all in temporary
 * folders.
 */
export async function benchStart(): Promise<object> {
  return inScratch(async (scratch) => {
    const repository = join(scratch, 'model-repo');
    cpSync(paths.modelRepository, repository, {
      recursive: true,
      filter: (path) => !/^\d+$/.test(basename(path)) || path.includes('ens_'),
    });
    const run = async (): Promise<LocalJson> => {
      const args = [join(paths.scripts, 'run.mjs'), 'local', '--once', '--json', '--repo', repository];
      // Free ports, which do not collide with a running local stack.
      for (const port of ['http', 'grpc', 'metrics', 's3']) args.push(`--${port}-port`, '0');
      const { stdout } = await exec(process.execPath, args, {
        env: { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache') },
        onStderrLine: (line) => process.stderr.write(`${line}\n`),
      });
      const { steps, milliseconds } = JSON.parse(stdout) as LocalJson;
      return { steps, milliseconds };
    };
    const runs = { fresh: await run(), second: await run() };
    const steps = runs.fresh.steps.map(({ name, milliseconds }, i) => [
      name,
      formatDuration(milliseconds),
      formatDuration(runs.second.steps[i]?.milliseconds ?? NaN),
    ]);
    const total = [
      'total, with steps that ran in parallel',
      formatDuration(runs.fresh.milliseconds),
      formatDuration(runs.second.milliseconds),
    ];
    print('npm run local, by step', ['step', 'fresh', 'second run'], [...steps, total]);
    return runs;
  });
}
