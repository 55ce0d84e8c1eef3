import { spawnSync } from 'node:child_process';
import { lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LaunchError } from './errors.mjs';

/** `npm ci`, once, however many commands are started together. */
export function install(root, { isInstalled, stamp, wanted }) {
  const unlock = lockInstall(root);
  try {
    if (isInstalled()) return; // Another command finished it while we waited.
    if (lstatSync(join(root, 'node_modules'), { throwIfNoEntry: false })?.isSymbolicLink() === true) {
      // npm ci would empty the folder that it leads to, which is somebody else's.
      throw new LaunchError(
        'node_modules is a link, and not what package-lock.json wants; install where it leads to, or remove it',
      );
    }
    process.stderr.write('Installing node modules (npm ci) ...\n');
    // No dependency needs its install script; skipping them keeps third-party code from running at install time.
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
    const result = spawnSync(npm, ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: root,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32',
    });
    if (result.status !== 0) {
      throw new LaunchError('npm ci failed (see above). Check the network or proxy settings of npm and try again.');
    }
    writeFileSync(stamp, wanted);
  } finally {
    unlock();
  }
}

/** A file that names its owner as lock: two commands started together must not run `npm ci` over each other. */
function lockInstall(root) {
  const lock = join(root, '.npm-ci.lock');
  for (let announced = false; ;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      return () => rmSync(lock, { force: true });
    } catch (error) {
      if (error.code !== 'EEXIST') throw new LaunchError(`cannot write to ${root}: ${error.message}`);
    }
    if (!ownerLives(lock)) {
      rmSync(lock, { force: true }); // It was interrupted or killed.
      continue;
    }
    if (!announced) process.stderr.write('Waiting for another "npm ci" in this folder ...\n');
    announced = true;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  }
}

function ownerLives(lock) {
  try {
    process.kill(Number(readFileSync(lock, 'utf8')), 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}
