import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestRestart, RESTART_SCRIPT } from '../../../src/agent/restart-request';

let directory: string;
beforeEach(() => (directory = mkdtempSync(join(tmpdir(), 'restart-'))));
afterEach(() => rmSync(directory, { recursive: true }));

/** Starts the script with a program in place of Triton, which notes each start. */
function start(program: string): ReturnType<typeof spawn> {
  const noted = `echo start >> "${directory}/starts"; ${program}`;
  return spawn('sh', ['-c', RESTART_SCRIPT, 'sh', directory, 'sh', '-c', noted], { stdio: 'ignore' });
}

const starts = (): number =>
  existsSync(join(directory, 'starts')) ? readFileSync(join(directory, 'starts'), 'utf8').split('\n').length - 1 : 0;

async function untilStarts(count: number): Promise<void> {
  while (starts() < count) await sleep(20);
}

test('the start script restarts the server on request, and ends when it is stopped', async () => {
  const script = start('exec sleep 100');
  await untilStarts(1);
  await sleep(100); // The script has read the requests before.
  requestRestart(directory);
  await untilStarts(2);
  script.kill('SIGTERM');
  const [code] = (await once(script, 'exit')) as [number];
  expect([code, starts()]).toEqual([143, 2]);
});

test('the start script ends with the exit status of a server that ends by itself', async () => {
  expect(await once(start('exit 7'), 'exit')).toEqual([7, null]);
  expect(starts()).toBe(1);
});
