import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import * as util from 'node:util';
import { paths } from '../../src/core/paths';

jest.mock('node:util', () => {
  const actual = jest.requireActual<typeof util>('node:util');
  return { ...actual, parseArgs: jest.fn(actual.parseArgs) };
});

const COMMANDS = readdirSync(paths.scripts).flatMap((file) => /^([\w-]+)\.ts$/.exec(file)?.[1] ?? []);

/** The help of a command, and the configuration with which it parses its command line. */
async function getHelp(name: string): Promise<{ help: string; config: util.ParseArgsConfig }> {
  let help = '';
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => ((help += String(text)), true));
  const parse = jest.mocked(util.parseArgs).mockClear();
  const { main } = (await import(join(paths.scripts, `${name}.ts`))) as {
    main: (argv: readonly string[]) => Promise<number>;
  };
  expect(await main(['--help'])).toBe(0);
  jest.restoreAllMocks();
  const config = parse.mock.calls[0]?.[0];
  if (config === undefined) throw new Error(`${name} does not parse its command line`);
  return { help, config };
}

describe.each(COMMANDS)('the help of %s', (name) => {
  test('names every flag', async () => {
    const { help, config } = await getHelp(name);
    const flags = Object.keys(config.options ?? {});
    expect(flags).toContain('help');
    expect(flags.filter((flag) => !new RegExp(`--${flag}(?![\\w-])`).test(help))).toEqual([]);
  });

  test('names the defaults', async () => {
    const { help, config } = await getHelp(name);
    for (const [flag, option] of Object.entries(config.options ?? {})) {
      if (typeof option.default !== 'string') continue;
      const shown = option.default.startsWith(paths.root) ? relative(paths.root, option.default) : option.default;
      expect(help).toMatch(new RegExp(`--${flag} .*\\(default: ${shown}\\b`));
    }
  });

  test('has examples that the command line accepts', async () => {
    const { help, config } = await getHelp(name);
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
      expect(() => util.parseArgs({ ...config, args: words })).not.toThrow();
    }
  });

  test('has lines of at most 130 columns', async () => {
    const { help } = await getHelp(name);
    expect(help.split('\n').filter((line) => line.length > 130)).toEqual([]);
  });
});

describe('the program of the npm package', () => {
  const run = (...args: string[]): string =>
    execFileSync(process.execPath, [join(paths.source, 'launch', 'program.mjs'), ...args], {
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
