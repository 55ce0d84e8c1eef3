import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { paths } from '../../src/core/paths';

const COMMANDS = readdirSync(paths.scripts).flatMap((file) => /^([\w-]+)\.ts$/.exec(file)?.[1] ?? []);

/** The help of a command, and its declaration. */
async function getHelp(name: string): Promise<{ help: string; declared: Command }> {
  let help = '';
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => ((help += String(text)), true));
  const parse = jest.spyOn(Command.prototype, 'parse');
  const { main } = (await import(join(paths.scripts, `${name}.ts`))) as {
    main: (argv: readonly string[]) => Promise<number>;
  };
  expect(await main(['--help'])).toBe(0);
  const [declared] = parse.mock.contexts as [Command];
  jest.restoreAllMocks();
  return { help, declared };
}

describe.each(COMMANDS)('the help of %s', (name) => {
  test('has examples that the command line accepts', async () => {
    const { help, declared } = await getHelp(name);
    const [, examples = ''] = /\nExamples:\n((?: {2}.*\n)+)/.exec(help) ?? [];
    const lines = examples.split('\n').filter((line) => line !== '');
    expect(lines.length).toBeGreaterThanOrEqual(2);
    expect(lines.length).toBeLessThanOrEqual(4);
    for (const line of lines) {
      const [command = '', args = ''] = line
        .replace(/ +# .*/, '')
        .trim()
        .split(' -- ');
      expect(command).toBe(`npm run ${name}`);
      const words = args.match(/"[^"]*"|\S+/g) ?? [];
      expect(() => declared.parse(words, { from: 'user' })).not.toThrow();
    }
  });
});

describe('the program of the npm package', () => {
  const run = (...args: string[]): string =>
    execFileSync(process.execPath, [join(paths.source, 'cli', 'program.mjs'), ...args], {
      encoding: 'utf8',
      stdio: 'pipe',
    });

  test('lists every command', () => {
    const listed = [...run('--help').matchAll(/^ {2}([a-z-]+) {2,}/gm)].map(([, name]) => name);
    expect(listed.sort()).toEqual([...COMMANDS].sort());
  });

  test('names the commands if one does not exist', () => {
    expect(() => run('serve')).toThrow('error: no such command: serve\n  -> commands: init local');
  });
});
