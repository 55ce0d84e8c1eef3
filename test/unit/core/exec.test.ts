import { CommandError, CommandTimeoutError, exec } from '../../../src/core/exec';

const node = (code: string, timeoutMs?: number) => exec(process.execPath, ['-e', code], { timeoutMs });

test('exec returns the output of a command', async () => {
  expect(await node('console.log("done")', 60_000)).toEqual({ stdout: 'done\n', stderr: '' });
});

test('exec kills a command at its timeout and throws CommandTimeoutError', async () => {
  const late = node('setInterval(() => 0, 1000)', 500);
  await expect(late).rejects.toBeInstanceOf(CommandTimeoutError);
  await expect(late).rejects.toThrow(/did not end within 0\.5 s/);
});

test.each([
  { end: 'exits with another code than 0', code: 'process.exit(3)', message: /exit code 3$/ },
  { end: 'is killed by another process', code: 'process.kill(process.pid, "SIGKILL")', message: /killed by SIGKILL$/ },
])('exec throws CommandError if a command $end before its timeout', async ({ code, message }) => {
  const failed = node(code, 60_000);
  await expect(failed).rejects.toBeInstanceOf(CommandError);
  await expect(failed).rejects.not.toBeInstanceOf(CommandTimeoutError);
  await expect(failed).rejects.toThrow(message);
});

test('exec reports a program that does not exist', async () => {
  await expect(exec('/nowhere/program', [], { timeoutMs: 60_000 })).rejects.toThrow(/^\/nowhere\/program: .*ENOENT/);
});
