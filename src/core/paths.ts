import { existsSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';

const root = findRoot(__dirname);
/** Whether a project has installed this package. Otherwise the package is the project itself. */
const isInstalled = root.split(sep).includes('node_modules');
const project = isInstalled ? findProject(process.cwd()) : root;
const scripts = join(root, 'scripts');
const python = join(root, 'python');

/** Paths of this package, and of the project that uses it. */
export const paths = {
  root,
  isInstalled,
  /** The folder with the stack files and the model repository. */
  project,
  modelRepository: join(project, 'model-repo'),
  scripts,
  source: join(root, 'src'),
  tools: join(root, 'tools'),
  /** Python code: the PYTHONPATH for `python -m tracing`. */
  python,
  requirements: join(python, 'requirements'),
  backends: join(python, 'backends'),
  /** Starts a program that ends when this process ends: see the file. */
  withParent: join(python, 'with_parent.py'),
} as const;

/** The root of this package, given a folder in it: src/core, or that of the command which esbuild has compiled. */
function findRoot(directory: string): string {
  if (existsSync(join(directory, 'package.json'))) return directory;
  if (directory === dirname(directory)) throw new Error(`${__dirname} is not in a folder with a package.json`);
  return findRoot(dirname(directory));
}

/** The nearest folder with a Pulumi project or a model repository, from `directory` upwards; otherwise `directory`. */
function findProject(directory: string): string {
  for (let folder = directory; ; folder = dirname(folder)) {
    if (['Pulumi.yaml', 'model-repo'].some((name) => existsSync(join(folder, name)))) return folder;
    if (folder === dirname(folder)) return directory;
  }
}
