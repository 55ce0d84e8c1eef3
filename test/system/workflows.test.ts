import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensureActionlint } from '../../tools/toolchain/actionlint';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { Scratch } from '../support/temp-dir';

const BUILD_MS = 10 * 60_000;

describeUnless(whyNoGo(['actionlint']), 'the workflows, by actionlint', () => {
  const scratch = new Scratch();
  afterAll(() => scratch.clean());
  let actionlint: string;
  beforeAll(async () => {
    actionlint = await ensureActionlint();
  }, BUILD_MS);

  // Without shellcheck and pyflakes, which actionlint would run if they were installed.
  const check = (directory: string): Promise<string> =>
    exec(actionlint, ['-no-color', '-shellcheck=', '-pyflakes='], { cwd: directory }).then(
      ({ stdout }) => stdout,
      (error: unknown) => {
        if (!(error instanceof CommandError)) throw error;
        return error.output.stdout + error.output.stderr;
      },
    );

  test('actionlint accepts all workflows', async () => {
    expect(await check(paths.root)).toBe('');
  });

  test('actionlint rejects an invalid workflow', async () => {
    const folder = join(scratch.directory, '.github', 'workflows');
    mkdirSync(folder, { recursive: true });
    mkdirSync(join(scratch.directory, '.git'));
    const job = 'runs-on: ubuntu-24.04\n    steps: [{ run: echo }]';
    writeFileSync(
      join(folder, 'x.yml'),
      `on: push\npermissions: { id-tokens: write }\njobs:\n  x:\n    need: y\n    ${job}\n`,
    );
    const said = await check(scratch.directory);
    expect(said).toContain('unknown permission scope "id-tokens"');
    expect(said).toContain('unexpected key "need"');
  });
});
