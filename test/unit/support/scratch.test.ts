import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Scratch } from '../../support/scratch';

test('steps are undone in reverse order, also when one fails, and the folder goes', async () => {
  const scratch = new Scratch();
  const done: string[] = [];
  writeFileSync(join(scratch.directory, 'file'), '');
  scratch.defer(() => void done.push('first'));
  scratch.defer(() => Promise.reject(new Error('second')));
  scratch.defer(() => void done.push('third'));
  await expect(scratch.clean()).rejects.toThrow('second');
  expect(done).toEqual(['third', 'first']);
  expect(existsSync(scratch.directory)).toBe(false);
});

test('what comes after the end is undone at once', async () => {
  const scratch = new Scratch();
  await scratch.clean();
  let undone = false;
  scratch.defer(() => void (undone = true));
  expect(undone).toBe(true);
});
