import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { measure } from '../../tools/bench/sync-environment';
import { Scratch } from '../support/temp-dir';

const PYTHON = 'python3';

let scratch: Scratch;
beforeAll(() => {
  scratch = new Scratch();
});
afterAll(() => scratch.clean());

const run = (code: string, env: NodeJS.ProcessEnv = process.env) =>
  measure(PYTHON, { argv: [process.execPath, '-e', code], env }, join(scratch.directory, 'log'));

test('measure returns the peak memory of the program in bytes', async () => {
  const [small, large] = [await run('0'), await run('Buffer.alloc(150e6, 1)')];
  expect(large.peakBytes - small.peakBytes).toBeGreaterThan(140e6);
  expect(large.peakBytes - small.peakBytes).toBeLessThan(200e6);
});

test('measure returns the CPU time of the program and its children, without waiting', async () => {
  const busy = `const used = () => { const { user, system } = process.cpuUsage(); return user + system; };
    const end = used() + 1e6;
    while (used() < end);`;
  const idle = await run('setTimeout(() => 0, 300)');
  const working = await run(busy);
  const started = await run(`require('child_process').spawnSync(process.execPath, ['-e', ${JSON.stringify(busy)}])`);
  expect(idle.seconds).toBeGreaterThanOrEqual(0.3);
  expect(working.cpuSeconds - idle.cpuSeconds).toBeGreaterThan(0.5);
  expect(started.cpuSeconds - idle.cpuSeconds).toBeGreaterThan(0.5);
});

test('measure writes the output to the log and passes the environment but no input', async () => {
  await run(`console.log(process.env.GIVEN, require('fs').readFileSync(0, 'utf8').length)`, { GIVEN: 'this' });
  expect(readFileSync(join(scratch.directory, 'log'), 'utf8')).toBe('this 0\n');
});

test('measure reports the output of a program that failed', async () => {
  await expect(run(`console.error('no such bucket'); process.exitCode = 3`)).rejects.toThrow(
    /exit code 3\nno such bucket/,
  );
  await expect(run(`process.kill(process.pid, 'SIGKILL')`)).rejects.toThrow('exit code -9');
});
