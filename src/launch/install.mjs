import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { clearInterval, setInterval } from 'node:timers';
import { LaunchError } from './errors.mjs';
import { tryLock } from './lock.cjs';

/** How often a long installation is reported, on a terminal and elsewhere. */
const REDRAW_MS = 1000;
const HEARTBEAT_MS = 8000;

/**
 * npm waits 10 s and then 60 s between its attempts, so a user without a network waits long for the error. With these
 * settings npm waits 2, 10 and 10 s, for one attempt more. The timeout of a slow answer is another setting.
 */
const RETRIES = {
  npm_config_fetch_retries: '3',
  npm_config_fetch_retry_mintimeout: '2000',
  npm_config_fetch_retry_maxtimeout: '10000',
};

/** Runs npm once, even if several commands start together. */
export async function install(root, { isInstalled, isPart, development, startPython, finish }) {
  const unlock = lockInstall(root);
  try {
    if (isInstalled()) return; // Another command finished the installation while we waited.
    if (lstatSync(join(root, 'node_modules'), { throwIfNoEntry: false })?.isSymbolicLink() === true) {
      // npm ci would empty the folder that the link points to, which may belong to another project.
      throw new LaunchError(
        'node_modules is a link, and not what package-lock.json wants; install where it leads to, or remove it',
      );
    }
    // Programs that run now use the packages that are there, which `npm ci` would delete first.
    const command = isPart() ? ['install', '--no-save'] : ['ci'];
    await run(startNpm(root, [...command, development ? '--include=dev' : '--omit=dev']), startPython?.());
    finish();
  } finally {
    unlock();
  }
}

function startNpm(root, command) {
  // No dependency needs its install script; skipping them keeps third-party code from running at install time.
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const quiet = ['--no-audit', '--no-fund', '--no-progress', '--loglevel=error'];
  return spawn(npm, [...command, '--ignore-scripts', ...quiet], {
    cwd: root,
    env: { ...RETRIES, ...process.env },
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
}

/**
 * Waits for npm. If npm or the set-up of Python fails, or the user interrupts them, ends both.
 * @param python {import('./python.cjs').PythonSetup | undefined}
 */
async function run(npm, python) {
  const ended = new Promise((resolve, reject) => {
    npm.once('error', ({ message }) => reject(new LaunchError(`npm, which comes with Node, is needed: ${message}`)));
    npm.once('close', resolve);
  });
  const children = [npm, ...(python === undefined ? [] : [python.child])];
  const stop = async () => {
    const running = children.filter(({ exitCode, signalCode, pid }) => pid && exitCode === null && signalCode === null);
    const ends = running.map((child) => once(child, 'close'));
    for (const child of running) child.kill();
    await Promise.all(ends);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  const interrupted = async (signal) => {
    await stop();
    for (const name of signals) process.off(name, interrupted);
    process.kill(process.pid, signal); // Ends this process as the signal would have done.
  };
  for (const name of signals) process.on(name, interrupted);
  const failed = new Promise((_, reject) =>
    python?.finished.catch(({ message, hint }) =>
      reject(new LaunchError(hint === undefined ? message : `${message}\n  -> ${hint}`)),
    ),
  );
  try {
    const code = await withSignOfLife(python, () => Promise.race([ended, failed]));
    if (code !== 0) {
      throw new LaunchError(
        'npm ci failed (see above). Check the network, and the registry and proxy settings of npm, and try again.',
      );
    }
  } catch (error) {
    await stop();
    throw error;
  } finally {
    for (const name of signals) process.off(name, interrupted);
  }
}

/** Prints what runs, and the elapsed time: one line that is redrawn on a terminal, a line at intervals elsewhere. */
async function withSignOfLife(python, work) {
  const { stderr } = process;
  const started = Date.now();
  const titles = () => {
    const detail = python?.detail ? `: ${python.detail}` : '';
    return `Installing node modules (npm ci)${python === undefined ? '' : ` | Python environment${detail}`}`;
  };
  const say = () => {
    const seconds = Math.round((Date.now() - started) / 1000);
    const text = `${titles()} (${seconds} s)`;
    stderr.write(stderr.isTTY ? `\r\x1b[K${text.slice(0, (stderr.columns || 80) - 1)}` : `...  ${text}\n`);
  };
  stderr.write(`${titles()} ...${stderr.isTTY ? '' : '\n'}`);
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
