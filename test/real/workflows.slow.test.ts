import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { ensureActionlint } from '../../tools/toolchain/actionlint';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';

const BUILD_MS = 10 * 60_000;

describeUnless(whyNoGo(['actionlint']), 'the workflows, by actionlint', () => {
  test(
    'actionlint accepts all workflows',
    async () => {
      // Without shellcheck and pyflakes, which actionlint would run if they were installed.
      const args = ['-no-color', '-shellcheck=', '-pyflakes='];
      const { stdout } = await exec(await ensureActionlint(), args, { cwd: paths.root }).catch((error: unknown) => {
        if (error instanceof CommandError) return error.output;
        throw error;
      });
      expect(stdout).toBe('');
    },
    BUILD_MS,
  );
});
