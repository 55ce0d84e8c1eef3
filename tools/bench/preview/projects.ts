import { copyFileSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';

/** The measured stack. */
export const STACK = 'staging';

const EMPTY = 'module.exports = {};\n';
/**
 * Loads packages lazily as infra/start.cjs does. Otherwise the SDK's own imports would count as a part of the
 * providers.
 */
const PROVIDERS = `const { loadLater } = require('./src/launch/later.cjs');
for (const name of ['typescript', '@npmcli/arborist']) loadLater(name, '@pulumi/pulumi');
const { Provider: Aws } = require('@pulumi/aws/provider');
const { Provider: Kubernetes } = require('@pulumi/kubernetes/provider');
new Aws('aws', { region: 'us-east-1' });
new Kubernetes('kubernetes', { renderYamlToDirectory: 'not-written' });
`;

/** The measured programs: an empty one, one with only the two providers, and the stack. */
export type Project = 'empty' | 'providers' | 'staging';

/** Creates a folder for each project in `parent`. */
export function makeProjects(parent: string): Record<Project, string> {
  return {
    empty: smallProject(parent, 'empty', EMPTY),
    providers: smallProject(parent, 'providers', PROVIDERS),
    staging: ownProject(join(parent, 'staging')),
  };
}

function smallProject(parent: string, name: Project, program: string): string {
  const directory = join(parent, name);
  mkdirSync(directory);
  const project = { name, main: 'index.cjs', runtime: { name: 'nodejs', options: { typescript: false } } };
  // JSON is valid YAML.
  writeFileSync(join(directory, 'Pulumi.yaml'), JSON.stringify(project));
  writeFileSync(join(directory, 'index.cjs'), program);
  for (const file of ['package.json', 'node_modules', 'scripts', 'src'])
    symlinkSync(join(paths.root, file), join(directory, file));
  return directory;
}

/** Links this project. The stack file is copied, because Pulumi writes to it. */
function ownProject(directory: string): string {
  mkdirSync(directory);
  for (const entry of readdirSync(paths.root)) {
    if (!entry.startsWith('Pulumi.') && entry !== '.git') symlinkSync(join(paths.root, entry), join(directory, entry));
  }
  for (const file of ['Pulumi.yaml', `Pulumi.${STACK}.yaml`])
    copyFileSync(join(paths.root, file), join(directory, file));
  return directory;
}
