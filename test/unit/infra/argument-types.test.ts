import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { argumentTypes } from '../../../infra/settings/argument-types';
import { TRITON_SERVER_FIELDS } from '../../../infra/settings/triton-fields';
import { paths } from '../../../src/core/paths';

const FILE = join(paths.root, 'infra', 'triton', 'args.ts');

const TEXT = `// Generated from infra/settings/triton-fields.ts: UPDATE_DOCS=1 npx jest unit/infra/argument-types
import type * as pulumi from '@pulumi/pulumi';

${argumentTypes('TritonServerArgs', TRITON_SERVER_FIELDS, 'Arguments of TritonServer.')}`;

test('args.ts has the fields that TritonServer reads, with their sentences', () => {
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(FILE, TEXT);
  expect(readFileSync(FILE, 'utf8')).toBe(TEXT);
});
