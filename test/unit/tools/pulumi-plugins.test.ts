import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findInstalledPlugin, installPlugin, packageVersion } from '../../../tools/toolchain/pulumi';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
const { PULUMI_HOME } = process.env;
afterAll(async () => {
  if (PULUMI_HOME === undefined) delete process.env['PULUMI_HOME'];
  else process.env['PULUMI_HOME'] = PULUMI_HOME;
  await scratch.clean();
});

test('a plugin is put where Pulumi looks for it, and found there by its name and version', () => {
  const home = join(scratch.directory, 'home');
  mkdirSync(home);
  const path = join(scratch.directory, 'built');
  writeFileSync(path, 'program', { mode: 0o755 });
  installPlugin(home, { name: 'kubernetes', version: '4.25.0', path });
  const installed = join(home, 'plugins', 'resource-kubernetes-v4.25.0', 'pulumi-resource-kubernetes');
  expect(readFileSync(installed, 'utf8')).toBe('program');

  process.env['PULUMI_HOME'] = home;
  expect(findInstalledPlugin('kubernetes', '4.25.0')).toEqual({
    name: 'kubernetes',
    version: '4.25.0',
    path: installed,
  });
  expect(findInstalledPlugin('kubernetes', '4.24.0')).toBeUndefined();
  expect(findInstalledPlugin('aws', '4.25.0')).toBeUndefined();
  expect(existsSync(join(home, 'plugins', 'resource-aws-v4.25.0'))).toBe(false);
});

test('the version is the one of the package that programs import', () => {
  expect(packageVersion('@pulumi/kubernetes')).toMatch(/^\d+\.\d+\.\d+$/);
  expect(() => packageVersion('@pulumi/none')).toThrow('package.json does not pin @pulumi/none');
});
