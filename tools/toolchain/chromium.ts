import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { UserError } from '../../src/core/errors';
import { CommandError, exec } from '../../src/core/exec';
import type { Step } from '../../src/cli/progress';
import { cached, cacheRoot, requireFreeSpace } from '../../src/install/cache';
import { findOnPath, isProgram } from '../../src/install/on-path';

/** Names of the browser on PATH. */
const ON_PATH = ['chromium', 'chromium-browser', 'google-chrome'];

/** The headless browser, and fonts, so that pages look the same on every machine. */
const PACKAGES = ['chromium-headless-shell', 'fonts-inter', 'fonts-jetbrains-mono'];

/** Path of the program in the first of PACKAGES. */
const PROGRAM = 'usr/lib/chromium/chromium-headless-shell';

/** Disk space for the packages and their contents on a machine with few of the libraries. */
const NEEDED_BYTES = 1e9;

/** Script that starts the program with the libraries and fonts beside it, so that callers need no settings. */
const STARTER = 'chromium';

/**
 * Returns a browser for tests: CHROME_PATH, otherwise one on PATH, otherwise Debian's package, unpacked into the cache.
 * Unpacking needs no root and does not change the system. apt determines the missing packages and verifies downloads.
 * @returns path of the program
 * @throws UserError if there is none and it cannot be installed
 */
export async function ensureChromium(step?: Step): Promise<string> {
  const there = findChromium();
  if (there !== undefined) return there;
  const reason = whyNoDebian();
  if (reason !== undefined) throw new UserError(`there is no chromium on PATH, and ${reason}`, { hint: HINT });
  const directory = await cached(cacheName(), async (target) => {
    requireFreeSpace(target, NEEDED_BYTES, 'unpacking chromium');
    step?.update('downloading chromium');
    await download(target).catch((error: unknown) => {
      if (!(error instanceof CommandError)) throw error;
      throw new UserError(`chromium could not be had: ${error.message}`, { hint: HINT, cause: error });
    });
    step?.update('unpacking chromium');
    await unpack(target);
  });
  return join(directory, STARTER);
}

const HINT = 'install chromium, or name a Chrome or Chromium in CHROME_PATH';

/** The existing browser, from CHROME_PATH, PATH or the cache. */
export function findChromium(): string | undefined {
  const named = process.env['CHROME_PATH'];
  if (named !== undefined && named !== '') return named;
  const onPath = findOnPath(...ON_PATH);
  if (onPath !== undefined) return onPath;
  const unpacked = join(cacheRoot(), cacheName(), STARTER);
  return isProgram(unpacked) ? unpacked : undefined;
}

/** Debian keeps only the newest build for each release, so only the release can be pinned. */
function cacheName(): string {
  const { id, version } = distribution();
  return `chromium-${id}${version}-${process.arch}`;
}

function whyNoDebian(): string | undefined {
  const { id } = distribution();
  // Ubuntu's package with this name is a snap.
  return id === 'debian' ? undefined : `only Debian has it as a package that can be unpacked (this is ${id})`;
}

function distribution(): { id: string; version: string } {
  const text = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '';
  const value = (name: string): string | undefined => new RegExp(`^${name}="?([\\w.-]+)`, 'm').exec(text)?.[1];
  return { id: value('ID') ?? process.platform, version: value('VERSION_ID') ?? '' };
}

/** Downloads the missing packages to `target`/packages. */
async function download(target: string): Promise<void> {
  const own = join(target, 'apt');
  try {
    await downloadWith([], target);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // The system's package lists are missing or outdated, so download them to a separate folder.
    const options = ['-o', `Dir::State::Lists=${join(own, 'lists')}`, '-o', `Dir::Cache=${join(own, 'cache')}`];
    for (const folder of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(own, folder), { recursive: true });
    await apt(['update', ...options], target);
    await downloadWith(options, target);
    rmSync(own, { recursive: true });
  }
}

async function downloadWith(options: readonly string[], target: string): Promise<void> {
  const simulated = await apt(['install', '--simulate', '--no-install-recommends', ...options, ...PACKAGES], target);
  const packages = missingPackages(simulated);
  const directory = join(target, 'packages');
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory);
  if (packages.length > 0) await apt(['download', ...options, ...packages], directory);
}

/** The packages that `apt-get install --simulate` would install, as NAME=VERSION. */
export function missingPackages(simulated: string): string[] {
  return [...simulated.matchAll(/^Inst (\S+) (?:\[\S+\] )?\((\S+) /gm)].map(
    ([, name, version]) => `${name}=${version}`,
  );
}

async function apt(args: readonly string[], cwd: string): Promise<string> {
  // Without this option root would download as another user, who cannot write here.
  const all = ['-q', '-o', 'APT::Sandbox::User=root', ...args];
  return (await exec('apt-get', all, { cwd, env: { ...process.env, LC_ALL: 'C' } })).stdout;
}

async function unpack(target: string): Promise<void> {
  const root = join(target, 'root');
  const packages = join(target, 'packages');
  for (const file of readdirSync(packages)) await exec('dpkg-deb', ['--extract', join(packages, file), root]);
  rmSync(packages, { recursive: true });
  writeFileSync(join(target, 'fonts.conf'), FONTS);
  const half = join(target, `${STARTER}.half`);
  writeFileSync(half, starter(libraryFolders(root).map((folder) => relative(target, folder))), { mode: 0o755 });
  // Detects missing libraries here instead of in a test.
  await exec(half, ['--version']);
  writeFileSync(join(target, STARTER), readFileSync(half), { mode: 0o755 });
  rmSync(half);
}

/** Folders with shared libraries; some are private folders of packages. */
function libraryFolders(root: string): string[] {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  const libraries = entries.filter(({ name }) => /\.so(\.\d|$)/.test(name));
  return [...new Set(libraries.map(({ parentPath }) => parentPath))].sort();
}

function starter(libraries: readonly string[]): string {
  return `#!/bin/sh
# Made by tools/toolchain/chromium.ts.
here=\${0%/*}
LD_LIBRARY_PATH="${libraries.map((folder) => `$here/${folder}`).join(':')}" FONTCONFIG_FILE="$here/fonts.conf" \\
  exec "$here/root/${PROGRAM}" "$@"
`;
}

const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">root/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
`;
