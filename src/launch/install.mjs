import { spawn } from 'node:child_process';
import { lstatSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clearInterval, setInterval } from 'node:timers';
import { LaunchError } from './errors.mjs';
import { tryLock } from './lock.cjs';

/** How often a long installation is reported, on a terminal and elsewhere. */
const REDRAW_MS = 1000;
const HEARTBEAT_MS = 10_000;

/**
 * npm waits 10 s and then 60 s between its attempts, so a user without a network waits long for the error. With these
 * settings npm waits 2, 10 and 10 s, for one attempt more. The timeout of a slow answer is another setting.
 */
const RETRIES = {
  npm_config_fetch_retries: '3',
  npm_config_fetch_retry_mintimeout: '2000',
  npm_config_fetch_retry_maxtimeout: '10000',
};

/** Runs `npm ci` once, even if several commands start together. */
export async function install(root, { isInstalled, stamp, wanted }) {
  const unlock = lockInstall(root);
  try {
    if (isInstalled()) return; // Another command finished the installation while we waited.
    if (lstatSync(join(root, 'node_modules'), { throwIfNoEntry: false })?.isSymbolicLink() === true) {
      // npm ci would empty the folder that the link points to, which may belong to another project.
      throw new LaunchError(
        'node_modules is a link, and not what package-lock.json wants; install where it leads to, or remove it',
      );
    }
    if (!(await withSignOfLife('Installing node modules (npm ci)', () => npmCi(root)))) {
      throw new LaunchError(
        'npm ci failed (see above). Check the network, and the registry and proxy settings of npm, and try again.',
      );
    }
    writeFileSync(stamp, wanted);
  } finally {
    unlock();
  }
}

/** @returns {Promise<boolean>} whether npm ci succeeded; its output is on stderr */
function npmCi(root) {
  // No dependency needs its install script; skipping them keeps third-party code from running at install time.
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const quiet = ['--no-audit', '--no-fund', '--no-progress', '--loglevel=error'];
  const child = spawn(npm, ['ci', '--ignore-scripts', ...quiet], {
    cwd: root,
    env: { ...RETRIES, ...process.env },
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  return new Promise((resolve, reject) => {
    child.once('error', ({ message }) => reject(new LaunchError(`npm, which comes with Node, is needed: ${message}`)));
    child.once('close', (code) => resolve(code === 0));
  });
}

/** Prints a title and the elapsed time: one line that is redrawn on a terminal, a line at intervals elsewhere. */
async function withSignOfLife(title, work) {
  const { stderr } = process;
  const started = Date.now();
  const say = () => {
    const seconds = Math.round((Date.now() - started) / 1000);
    stderr.write(stderr.isTTY ? `\r${title} ... ${seconds} s` : `...  ${title} (${seconds} s)\n`);
  };
  stderr.write(`${title} ...${stderr.isTTY ? '' : '\n'}`);
  const timer = setInterval(say, stderr.isTTY ? REDRAW_MS : HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (stderr.isTTY) stderr.write('\n');
  }
}

/** Locks the installation, because two concurrent `npm ci` would disturb each other. */
function lockInstall(root) {
  const path = join(root, '.npm-ci.lock');
  for (let announced = false; ; announced = true) {
    const lock = tryInstallLock(path);
    if ('release' in lock) return lock.release;
    if (!announced)
      process.stderr.write(`Waiting for process ${lock.owner}, which installs node modules (npm ci) ...\n`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  }
}

function tryInstallLock(path) {
  try {
    return tryLock(path);
  } catch (error) {
    throw new LaunchError(`cannot lock the installation with ${path}: ${error.message}`);
  }
}
