import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump, load } from 'js-yaml';
import { AUTONAMING, projectConfig } from '../../../infra/settings/project-config';
import { paths } from '../../../src/core/paths';

const FILE = join(paths.root, 'Pulumi.yaml');

interface Project {
  main: string;
  runtime: unknown;
  config: Record<string, { description?: string }>;
}

// UPDATE_PULUMI_YAML=1 updates the section; then run prettier.
test('Pulumi.yaml declares every key as the program reads it: type, default, description', () => {
  const text = readFileSync(FILE, 'utf8');
  if (process.env['UPDATE_PULUMI_YAML'] === '1') {
    writeFileSync(
      FILE,
      `${text.replace(/^config:[^]*$/m, '')}${dump({ config: { ...AUTONAMING, ...projectConfig() } }, { lineWidth: -1 })}`,
    );
  }
  const project = load(readFileSync(FILE, 'utf8')) as Project;
  expect(project.config).toEqual({ ...AUTONAMING, ...projectConfig() });
});

test('every key has a default, because Pulumi requires a value for the others', () => {
  expect(Object.entries(projectConfig()).filter(([, declared]) => declared.default === undefined)).toEqual([]);
});
