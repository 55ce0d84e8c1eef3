import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { UserError } from '../../core/errors';
import { paths } from '../../core/paths';

const TEMPLATE = join(paths.source, 'commands', 'init', 'project');
/** npm leaves files with these names out of packages. */
const HIDDEN = { gitignore: '.gitignore', github: '.github' };

/**
 * Writes a new project to a folder that does not exist or is empty: one model, stack files, a workflow.
 * @returns the paths of the files, relative to the folder
 * @throws UserError if the folder has files, or cannot be made
 */
export function createProject(folder: string): string[] {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (cause) {
    throw new UserError(`cannot make the folder ${folder}: ${(cause as Error).message}`, { cause });
  }
  if (readdirSync(folder).length > 0) throw new UserError(`${folder} is not empty`, { hint: 'name a new folder' });
  cpSync(TEMPLATE, folder, { recursive: true });
  for (const [name, hidden] of Object.entries(HIDDEN)) renameSync(join(folder, name), join(folder, hidden));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(packageFile(), null, 2)}\n`);
  writeFileSync(join(folder, 'Pulumi.yaml'), pulumiFile());
  cpSync(join(paths.root, 'model-repo', 'model.schema.json'), join(folder, 'model-repo', 'model.schema.json'));
  return listFiles(folder).map((path) => relative(folder, path));
}

function packageFile(): object {
  const { name, version, engines } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as {
    name: string;
    version: string;
    engines: object;
  };
  return { private: true, engines, dependencies: { [name]: version } };
}

/** The settings of all stacks with their defaults, as in this repository. */
function pulumiFile(): string {
  return readFileSync(join(paths.root, 'Pulumi.yaml'), 'utf8')
    .replace(/^#.*\n/gm, '')
    .replace(/^main: .*/m, 'main: index.js');
}

const listFiles = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? listFiles(path) : [path];
    });
