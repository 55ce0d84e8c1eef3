import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = findRoot(__dirname);
const scripts = join(root, 'scripts');
const python = join(root, 'python');

/** Where things are in this package. */
export const paths = {
  root,
  scripts,
  modelRepository: join(root, 'model-repo'),
  source: join(root, 'src'),
  tools: join(root, 'tools'),
  /** What runs in Python: PYTHONPATH for `python -m tracing`. */
  python,
  requirements: join(python, 'requirements'),
  backends: join(python, 'backends'),
  /** Starts a program that ends with us: see the file. */
  withParent: join(python, 'with_parent.py'),
} as const;

/** The folder of this package, from one in it: src/core, or scripts for what src/launch has bundled. */
function findRoot(directory: string): string {
  if (existsSync(join(directory, 'package-lock.json'))) return directory;
  if (directory === dirname(directory)) throw new Error(`${__dirname} is not in a folder with a package-lock.json`);
  return findRoot(dirname(directory));
}
