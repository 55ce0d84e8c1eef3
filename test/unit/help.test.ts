import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import * as util from 'node:util';
import { paths } from '../../src/core/paths';

jest.mock('node:util', () => {
  const actual = jest.requireActual<typeof util>('node:util');
  return { ...actual, parseArgs: jest.fn(actual.parseArgs) };
});

const COMMANDS = readdirSync(paths.scripts).flatMap((file) => /^([\w-]+)\.ts$/.exec(file)?.[1] ?? []);

test.each(COMMANDS)('npm run %s -- --help names every flag that the command takes', async (name) => {
  let printed = '';
  jest.spyOn(process.stdout, 'write').mockImplementation((text) => ((printed += String(text)), true));
  const parse = jest.mocked(util.parseArgs).mockClear();
  const { main } = (await import(join(paths.scripts, `${name}.ts`))) as {
    main: (argv: readonly string[]) => Promise<number>;
  };
  expect(await main(['--help'])).toBe(0);
  jest.restoreAllMocks();
  const flags = parse.mock.calls.flatMap(([config]) => Object.keys(config?.options ?? {}));
  expect(flags).toContain('help');
  expect(flags.filter((flag) => !new RegExp(`--${flag}(?![\\w-])`).test(printed))).toEqual([]);
});
