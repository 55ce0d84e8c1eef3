import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { cached } from '../../src/install/cache';

/** Contains package.json and package-lock.json of Verdaccio, a registry for npm packages (MIT licence). */
const PINS = join(paths.tools, 'toolchain', 'verdaccio');

/** Returns the start file of Verdaccio, for `node`. */
export async function ensureVerdaccio(): Promise<string> {
  const { dependencies } = JSON.parse(readFileSync(join(PINS, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const directory = await cached(`verdaccio-${dependencies['verdaccio']}`, async (target) => {
    for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(PINS, file), join(target, file));
    await exec('npm', ['ci', '--prefix', target, '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: target });
  });
  return join(directory, 'node_modules', 'verdaccio', 'bin', 'verdaccio');
}
