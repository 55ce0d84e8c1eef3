import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { paths } from '../../src/core/paths';

const read = (...path: string[]): string => readFileSync(join(paths.root, ...path), 'utf8');

test.each(['CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', '.editorconfig', '.node-version'])(
  '%s is there',
  (file) => expect(read(file).trim()).not.toBe(''),
);

test('the changelog knows the version of the package', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  expect(read('CHANGELOG.md')).toContain(`## [${version}]`);
});

describe('hooks before a commit', () => {
  interface Hook {
    id: string;
    entry: string;
    additional_dependencies?: string[];
  }
  const { repos } = load(read('.pre-commit-config.yaml')) as { repos: { repo: string; hooks: Hook[] }[] };
  const hooks = repos.flatMap(({ hooks }) => hooks);

  test('are of this package, so that nothing else has to be trusted', () => {
    expect(repos.map(({ repo }) => repo)).toEqual(['local']);
    expect(hooks.map(({ id }) => id)).toEqual(['prettier', 'eslint', 'ruff-check', 'ruff-format']);
  });

  test('are the tools of `npm run check`, in their versions', () => {
    for (const { entry, additional_dependencies: packages = [] } of hooks) {
      const [program = '', script = ''] = entry.split(' ');
      if (program === 'node') expect(existsSync(join(paths.root, script))).toBe(true);
      const locked = read('python', 'requirements', 'development.txt').split('\n');
      for (const one of packages) expect(locked).toContain(one);
    }
  });
});

describe('renovate', () => {
  interface Manager {
    description: string;
    managerFilePatterns: string[];
    matchStrings: string[];
  }
  const { customManagers, packageRules } = JSON.parse(read('renovate.json')) as {
    customManagers: Manager[];
    packageRules: { groupName?: string }[];
  };
  const files = [
    'Dockerfile',
    ...readdirSync(join(paths.root, '.github', 'workflows')).map((name) => `.github/workflows/${name}`),
  ];

  test.each(customManagers)('$description: is found where it is', ({ managerFilePatterns, matchStrings }) => {
    const patterns = managerFilePatterns.map((pattern) => new RegExp(pattern.slice(1, -1)));
    const texts = files.filter((file) => patterns.some((pattern) => pattern.test(file))).map((file) => read(file));
    const found = matchStrings.flatMap((text) =>
      texts.map((file) => new RegExp(text).exec(file)?.groups?.['currentValue']),
    );
    expect(found.filter((value) => value !== undefined)).not.toEqual([]);
  });

  test('keeps what belongs together together', () => {
    const groups = packageRules.map(({ groupName }) => groupName).filter((name) => name !== undefined);
    expect(groups).toEqual(['pulumi', 'aws', 'triton', 'tools of development', 'GitHub actions']);
  });
});
