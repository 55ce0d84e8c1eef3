import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { formatDuration } from '../../src/core/format';
import { paths } from '../../src/core/paths';
import { inScratch, print } from './compare';

interface LocalJson {
  /** From the start of the command, with its set-up. */
  firstAnswerMs: number;
  milliseconds: number;
}

/** Measures `npm run local` in a fresh clone twice, the first time with empty caches: no packages, programs or traces. */
export async function benchStart(): Promise<void> {
  await inScratch(async (scratch) => {
    const clone = join(scratch, 'clone');
    await exec('git', ['clone', '--quiet', paths.root, clone]);
    // Free ports, which do not collide with a running local stack.
    const ports = ['http', 'grpc', 'metrics', 's3'].flatMap((port) => [`--${port}-port`, '0']);
    const run = async (): Promise<LocalJson> => {
      const { stdout } = await exec('npm', ['run', '--silent', 'local', '--', '--once', '--json', ...ports], {
        cwd: clone,
        env: {
          ...process.env,
          XDG_CACHE_HOME: join(scratch, 'cache'),
          npm_config_cache: join(scratch, 'npm'),
          PIP_CACHE_DIR: join(scratch, 'pip'),
        },
        onStderrLine: (line) => process.stderr.write(`${line}\n`),
      });
      const { firstAnswerMs, milliseconds } = JSON.parse(stdout) as LocalJson;
      return { firstAnswerMs, milliseconds };
    };
    const runs = { fresh: await run(), second: await run() };
    const row = (what: string, key: keyof LocalJson): string[] => [
      what,
      ...Object.values(runs).map((times) => formatDuration(times[key])),
    ];
    print(
      'npm run local',
      ['until', 'fresh clone, empty caches', 'second run'],
      [row('the first answer', 'firstAnswerMs'), row('all answers', 'milliseconds')],
    );
  });
}
