import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = findRoot(__dirname);
const scripts = join(root, 'scripts');

/** Where things are in this package. */
export const paths = {
  root,
  scripts,
  modelRepository: join(root, 'model-repo'),
  requirements: join(scripts, 'requirements'),
  backends: join(scripts, 'backends'),
  /** Starts a program that ends with us: see the file. */
  withParent: join(scripts, 'lib', 'with_parent.py'),
} as const;

/** The folder of this package, from one in it: scripts/lib, or scripts for what scripts/launch has bundled. */
function findRoot(directory: string): string {
  if (existsSync(join(directory, 'package-lock.json'))) return directory;
  if (directory === dirname(directory)) throw new Error(`${__dirname} is not in a folder with a package-lock.json`);
  return findRoot(dirname(directory));
}
