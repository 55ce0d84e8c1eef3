import { CommandError, CommandTimeout, exec } from '../../src/core/exec';

const node = (code: string, timeoutMs?: number) => exec(process.execPath, ['-e', code], { timeoutMs });

test('a command that does not end in time is killed, and that is told apart from other ends', async () => {
  const late = node('setInterval(() => 0, 1000)', 500);
  await expect(late).rejects.toBeInstanceOf(CommandTimeout);
  await expect(late).rejects.toThrow(/did not end within 0\.5 s/);
  const failed = node('process.exit(3)', 60_000);
  await expect(failed).rejects.toBeInstanceOf(CommandError);
  await expect(failed).rejects.not.toBeInstanceOf(CommandTimeout);
  await expect(failed).rejects.toThrow(/exit code 3/);
  expect((await node('console.log("done")', 60_000)).stdout).toBe('done\n');
});
