import { join, resolve } from 'node:path';

const root = resolve(__dirname, '..', '..');
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
