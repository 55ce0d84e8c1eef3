import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONFIG_FIELDS } from '../../../infra/settings/config';
import type { Fields } from '../../../infra/settings/fields';
import { paths } from '../../../src/core/paths';

/** These declare settings: their types, defaults and limits. */
const DECLARATIONS = /(-fields|types|args|defaults|limits)\.ts$/;

/** The code of infra/ that uses settings, without comments. */
const code = readdirSync(join(paths.root, 'infra'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !DECLARATIONS.test(file))
  .map((file) => readFileSync(join(paths.root, 'infra', file), 'utf8').replace(/\/\*\*[^]*?\*\/|\/\/.*$/gm, ''))
  .join('\n');

/** The names of all settings, those in mappings too. */
const getNames = (fields: Fields): string[] =>
  Object.entries(fields).flatMap(([name, field]) => [
    name,
    // Karpenter gets budgets as they are.
    ...('fields' in field && name !== 'budgets' ? getNames(field.fields) : []),
  ]);

test.each([...new Set(getNames(CONFIG_FIELDS))])('the setting %s is used by a component', (name) => {
  expect(code).toMatch(new RegExp(`\\b${name}\\b`));
});
