// Entry point of every npm script. It needs nothing but Node itself, because on a fresh clone nothing else is there:
// it checks the Node version, installs node_modules when package-lock.json changed, and hands over to scripts/<command>.ts.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MINIMUM_NODE = 20;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [command, ...args] = process.argv.slice(2);

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

if (Number(process.versions.node.split('.')[0]) < MINIMUM_NODE) {
  fail(`Node ${process.versions.node} is too old: Node ${MINIMUM_NODE} or newer is needed (see .node-version)`);
}
const script = join(root, 'scripts', `${command}.ts`);
if (command === undefined || !/^[a-z-]+$/.test(command) || !existsSync(script)) {
  fail(`no such command: ${command ?? '(none)'}; "npm run" lists them`);
}
installNodeModules();
const require = createRequire(import.meta.url);
require('tsx/cjs');
const { main } = require(script);
// Set rather than call process.exit: what is still being written to a pipe must arrive.
process.exitCode = await main(args);

/** `npm ci`, when node_modules is not the one of this package-lock.json. */
function installNodeModules() {
  const lock = readFileSync(join(root, 'package-lock.json'));
  const wanted = createHash('sha256').update(lock).update(process.versions.modules).digest('hex');
  const stamp = join(root, 'node_modules', '.installed-lock');
  const installed = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted;
  if (installed()) return;
  const unlock = lockInstall();
  try {
    if (installed()) return; // Another command finished it while we waited.
    process.stderr.write('Installing node modules (npm ci) ...\n');
    // No dependency needs its install script; skipping them keeps third-party code from running at install time.
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
    const result = spawnSync(npm, ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: root,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32',
    });
    if (result.status !== 0) {
      fail('npm ci failed (see above). Check the network or proxy settings of npm and try again.');
    }
    writeFileSync(stamp, wanted);
  } finally {
    unlock();
  }
}

/** A file that names its owner as lock: two commands started together must not run `npm ci` over each other. */
function lockInstall() {
  const lock = join(root, '.npm-ci.lock');
  for (let announced = false; ;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      return () => rmSync(lock, { force: true });
    } catch (error) {
      if (error.code !== 'EEXIST') fail(`cannot write to ${root}: ${error.message}`);
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
