import { join } from 'node:path';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { Scratch } from '../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

/** Starts a shell that runs `script`. Remaining processes are stopped after the test. */
function start(script: string): ManagedProcess {
  const shell = new ManagedProcess({
    name: 'shell',
    command: '/bin/sh',
    args: ['-c', script],
    logFile: join(scratch.directory, 'shell.log'),
    python: 'python3',
  });
  scratch.defer(() => shell.killGroup());
  return shell;
}

test('ManagedProcess notices its end immediately, although a child process keeps the output open', async () => {
  const shell = start('echo before; sleep 600 & kill -SEGV $$');
  expect(await shell.ended).toBe('signal SIGSEGV');
  expect(shell.lastLines()).toBe('before');
});

test('ManagedProcess reports its exit and its last output', async () => {
  const shell = start('for i in 1 2 3; do echo line $i; done; exit 3');
  expect(await shell.ended).toBe('exit code 3');
  expect(shell.lastLines(2)).toBe('line 2\nline 3');
});
