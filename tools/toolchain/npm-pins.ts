import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';

/** Packages of npm that are installed outside of this repository, as a folder beside this file pins them. */
export class NpmPins {
  private readonly folder: string;

  /** @param name of the folder, which has a package.json and a package-lock.json */
  constructor(name: string) {
    this.folder = join(paths.tools, 'toolchain', name);
  }

  /** The version of a package that package.json names. */
  version(name: string): string | undefined {
    const { dependencies } = JSON.parse(readFileSync(join(this.folder, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    return dependencies[name];
  }

  /** Installs the packages in a folder, without running their scripts. */
  async install(target: string): Promise<void> {
    for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(this.folder, file), join(target, file));
    await exec('npm', ['ci', '--prefix', target, '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: target });
  }
}
