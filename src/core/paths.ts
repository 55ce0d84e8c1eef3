import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = findRoot(__dirname);
const scripts = join(root, 'scripts');
const python = join(root, 'python');

/** Paths of this package. */
export const paths = {
  root,
  scripts,
  modelRepository: join(root, 'model-repo'),
  source: join(root, 'src'),
  tools: join(root, 'tools'),
  /** Python code: the PYTHONPATH for `python -m tracing`. */
  python,
  requirements: join(python, 'requirements'),
  backends: join(python, 'backends'),
  /** Starts a program that ends when this process ends: see the file. */
  withParent: join(python, 'with_parent.py'),
} as const;

/** The root of this package, given a folder in it: src/core, or scripts for code that src/launch has bundled. */
function findRoot(directory: string): string {
  if (existsSync(join(directory, 'package.json'))) return directory;
  if (directory === dirname(directory)) throw new Error(`${__dirname} is not in a folder with a package.json`);
  return findRoot(dirname(directory));
}
