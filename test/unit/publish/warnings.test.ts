import { mkdtempSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import type { PublishOptions } from '../../../src/publish/publish';
import { MemoryStore } from '../../support/memory-store';
import { publisher, TWO_MODELS } from '../../support/publish';
import { writeRepository } from '../../support/repository';
import { tracedModel } from '../../support/traced-model';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const STALE = 'is stale; since the trace: net.py changed';
const ABSENT = 'no longer has these models, which stay served: b';

test.each<{ options: Partial<PublishOptions>; expected: string[] }>([
  { options: {}, expected: [STALE, ABSENT] },
  { options: { dryRun: true }, expected: [STALE, ABSENT] },
  { options: { exclude: ['m'] }, expected: [ABSENT] },
  { options: { models: ['a'] }, expected: [] },
  { options: { models: ['m'] }, expected: [STALE] },
  { options: { prune: true }, expected: [STALE] },
])('publish with $options warns: $expected', async ({ options, expected }) => {
  const repository = writeRepository(mkdtempSync(join(scratch.directory, 'r')), { ...TWO_MODELS, ...tracedModel('m') });
  const bucket = publisher(new MemoryStore().store, { bucket: 'bucket', prefix: 'models' }, repository);
  const warnings: string[] = [];
  const onWarning: PublishOptions['onWarning'] = ({ message }) => warnings.push(message);
  await bucket.publish({ onWarning });
  expect(warnings).toEqual([]);
  renameSync(join(repository, 'b'), join(repository, 'renamed'));
  writeRepository(repository, { 'm/net.py': '' });
  await bucket.publish({ ...options, onWarning });
  expect([...new Set(warnings)]).toEqual(expected);
});
