import { runCommand } from '../../../src/cli/cli';
import { UserError } from '../../../src/core/errors';

test('an error with control characters, such as an answer of a server, cannot control the terminal', async () => {
  const written: string[] = [];
  const spy = jest.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  const code = await runCommand(() => Promise.reject(new UserError('replica a answers \u001b[2J\u009b1m\r\n\tb')));
  spy.mockRestore();
  expect([code, written.join('')]).toEqual([1, 'error: replica a answers \\x1b[2J\\x9b1m\\x0d\n\tb\n']);
});
