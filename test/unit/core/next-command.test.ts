import { paths } from '../../../src/core/paths';
import { nextCommand, traceCommand } from '../../../src/core/next-command';

test.each([
  ['no words', nextCommand('status'), 'npm run status'],
  ['a word with a space', nextCommand('local', '--repo', '/my models'), "npm run local -- --repo '/my models'"],
  ['a model of this package', traceCommand(`${paths.modelRepository}/bert`), 'npm run trace -- --models bert'],
  ['of another folder', traceCommand("/it's/m"), "npm run trace -- --models m --repo '/it'\\''s'"],
])('nextCommand and traceCommand quote the words of %s', (_, command, expected) => {
  expect(command).toBe(expected);
});
