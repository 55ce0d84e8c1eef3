import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readProduction } from '../../../policy/stack-file';
import { folder, removeFolders } from '../../support/model-files';

afterEach(removeFolders);

test.each([
  ['true', true],
  ['"true"', true],
  ['false', false],
  ['"false"', false],
  ['maybe', undefined],
  [undefined, undefined],
])('readProduction reads policy:production: %s from the stack file of the project', (value, expected) => {
  const setting = value === undefined ? '' : `\n  policy:production: ${value}`;
  const project = folder({ 'Pulumi.yaml': 'name: x', 'Pulumi.live.yaml': `config:\n  x:y: 1${setting}\n` });
  mkdirSync(join(project, 'infra'));
  for (const directory of [project, join(project, 'infra')]) {
    expect(readProduction(directory, 'urn:pulumi:live::x::a:b:C::d')).toBe(expected);
    expect(readProduction(directory, 'urn:pulumi:other::x::a:b:C::d')).toBeUndefined();
  }
});

test('readProduction finds nothing outside a project', () => {
  expect(readProduction(folder({}), 'urn:pulumi:live::x::a:b:C::d')).toBeUndefined();
});
