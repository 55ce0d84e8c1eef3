import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { paths } from '../../../../src/core/paths';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'lock-test-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** Enters a section that admits one process at a time. Every third time the process leaves a stale lock behind. */
const CONTENDER = `
const { unlinkSync, writeFileSync } = require('node:fs');
const [lockModule, path, inside] = process.argv.slice(1);
const { tryLock } = require(lockModule);
const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
for (let i = 0; i < 60; i += 1) {
  let lock = tryLock(path);
  for (; 'owner' in lock; lock = tryLock(path)) pause();
  writeFileSync(inside, '', { flag: 'wx' });
  pause();
  unlinkSync(inside);
  if (i % 3 === 0) writeFileSync(path, '999999999');
  else lock.release();
}
`;

test('tryLock admits one process at a time, also while stale locks are replaced', async () => {
  const args = ['-e', CONTENDER, join(paths.source, 'core', 'lock.cjs'), join(home, 'lock'), join(home, 'inside')];
  const contenders = Array.from({ length: 4 }, async () => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    const [code] = (await once(child, 'close')) as [number];
    return { code, errors };
  });
  expect(await Promise.all(contenders)).toEqual(contenders.map(() => ({ code: 0, errors: '' })));
  expect(readdirSync(home).filter((name) => name !== 'lock')).toEqual([]);
});
