import { paths } from '../../../src/core/paths';
import { npmScript, OURS } from './contestants';
import type { Course, Measured } from './course';
import type { Sample } from './measure';
import { rounds } from '../rounds';

/** Measures the start-up time of each tool, and the overhead of `npm run` for ours. */
export async function start({ arena, sources, repetitions, onRun }: Course): Promise<Measured> {
  // V8's compile cache of our program is written at the end of its first real run.
  const source = sources.get('tiny', { models: 1, parts: 1, partBytes: 1024 });
  await arena.sync(arena.ours, source, 'start');

  const { peers, python } = arena;
  const run =
    (...argv: string[]) =>
    (): Promise<Sample> =>
      arena.measure({ argv, env: { ...arena.env, PYTHONPATH: peers.aws.packages } });
  const entries = new Map([
    [OURS, run(...npmScript(OURS), '--help')],
    ['npm run sync-models', run('/usr/bin/env', 'npm', '--prefix', paths.root, 'run', 'sync-models', '--', '--help')],
    ['node alone', run(process.execPath, '-e', '0')],
    ['s5cmd', run(peers.s5cmd, 'version')],
    ['rclone', run(peers.rclone, 'version')],
    ['aws', run(python, peers.aws.program, '--version')],
  ]);
  return { samples: await rounds(entries, repetitions, onRun) };
}
