import { join } from 'node:path';
import { buildSync } from 'esbuild';
import { paths } from '../../../src/core/paths';

test('the Pulumi program does not load modules that run servers or download tools', () => {
  const { metafile } = buildSync({
    absWorkingDir: paths.root,
    entryPoints: [join('infra', 'index.ts')],
    outdir: 'not-written',
    bundle: true,
    packages: 'external',
    platform: 'node',
    write: false,
    metafile: true,
  });
  const ours = Object.keys(metafile.inputs);
  expect(ours).toContain('infra/stack.ts');
  expect(ours.filter((file) => /src\/(install|local|core\/exec)\b/.test(file))).toEqual([]);
});
