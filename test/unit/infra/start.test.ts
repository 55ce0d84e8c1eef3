import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { paths } from '../../../scripts/lib/paths';

test('a start of the program loads nothing that runs servers or gets tools', () => {
  const { metafile } = buildSync({
    absWorkingDir: paths.root,
    entryPoints: [join('infra', 'main.ts')],
    outdir: 'not-written',
    bundle: true,
    packages: 'external',
    platform: 'node',
    write: false,
    metafile: true,
  });
  const ours = Object.keys(metafile.inputs);
  expect(ours).toContain('infra/index.ts');
  expect(
    ours.filter((file) => /scripts\/lib\/(toolchain|local|triton\/server|managed-process|exec)/.test(file)),
  ).toEqual([]);
});
