// Entry point of every npm script. Needs only Node, because a fresh clone has nothing else. Installs node_modules if they
// are not what package-lock.json wants, then compiles and runs scripts/<command>.ts or tools/<command>.ts.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import module, { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { tryLock } from '../src/core/lock.cjs';

const MINIMUM_NODE = 20;
/** Commands whose set-up of Python starts while npm runs, because both take minutes. */
const WITH_PYTHON = ['local', 'test'];
/** After these commands of README, the user runs pulumi, whose policy pack is a development package. */
const BEFORE_PULUMI = ['cost', 'doctor'];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [command = '(none)', ...args] = process.argv.slice(2);

if (Number(process.versions.node.split('.')[0]) < MINIMUM_NODE) {
  fail(`Node ${process.versions.node} is too old: Node ${MINIMUM_NODE} or newer is needed (see .node-version)`);
}
const folder = ['scripts', 'tools'].find((name) => existsSync(join(root, name, `${command}.ts`)));
if (folder === undefined || !/^[a-z-]+$/.test(command)) fail(`no such command: ${command}; "npm run" lists them`);
const development = folder === 'tools' || BEFORE_PULUMI.includes(command);
if (!isInstalled({ development })) await install();
enterShellFolder();
process.setSourceMapsEnabled(true); // Stack traces name the TypeScript files.
module.enableCompileCache?.(); // Since Node 22.1.
const { loadTypeScript } = createRequire(import.meta.url)('../src/cli/typescript.cjs');
const { main } = loadTypeScript(join(root, folder, `${command}.ts`));
// Sets exitCode instead of calling process.exit, so that pending output to a pipe is written.
process.exitCode = await main(args);

/** Whether npm has installed what package-lock.json wants. Optional packages may be those of another platform. */
function isInstalled({ development }) {
  const record = join(root, 'node_modules', '.package-lock.json'); // npm writes it at the end.
  if (!existsSync(record)) return false;
  const [wanted, installed] = [join(root, 'package-lock.json'), record].map(
    (path) => JSON.parse(readFileSync(path, 'utf8')).packages ?? {},
  );
  return Object.entries(wanted).every(([path, { version, integrity, optional, dev }]) => {
    const found = installed[path];
    if (path === '' || found === undefined) return path === '' || optional || (dev && !development);
    return found.version === version && found.integrity === integrity;
  });
}

/** Runs npm, once if several commands start together. */
async function install() {
  const lock = join(root, '.npm-ci.lock');
  let held = tryLock(lock);
  if ('owner' in held) process.stderr.write(`Waiting for process ${held.owner}, which runs npm ci ...\n`);
  for (; 'owner' in held; held = tryLock(lock)) await sleep(500);
  process.once('exit', held.release);
  if (isInstalled({ development })) return held.release();
  if (lstatSync(join(root, 'node_modules'), { throwIfNoEntry: false })?.isSymbolicLink() === true) {
    // npm ci would empty the folder that the link points to, which may belong to another project.
    fail('node_modules is a link, and not what package-lock.json wants; install where it leads to, or remove it');
  }
  process.stderr.write('Installing node modules (npm ci) ...\n');
  startPython();
  // Programs that run now use the packages that are there, which `npm ci` would delete first.
  const what = isInstalled({ development: false }) ? ['install', '--no-save'] : ['ci'];
  what.push(development ? '--include=dev' : '--omit=dev');
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  const pass = (signal) => npm.kill(signal);
  // Before npm starts, because a signal between the two would end only this process.
  for (const signal of signals) process.on(signal, pass);
  // No dependency needs its install script; skipping them keeps third-party code from running at install time.
  const npm = spawn('npm', [...what, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  const [code, killedBy] = await once(npm, 'close').catch(({ message }) =>
    fail(`npm, which comes with Node, failed: ${message}`),
  );
  // Signals are for the command now.
  for (const signal of signals) process.off(signal, pass);
  if (killedBy !== null) fail(`npm ci was ended by ${killedBy}`);
  if (code !== 0) fail('npm ci failed (see above). Check the network, and the registry and proxy settings of npm');
  held.release();
}

/** The command waits for this set-up, or repeats it and reports its errors. */
function startPython() {
  if (!WITH_PYTHON.includes(command) || args.includes('--help')) return;
  const flags = ['--embeddable', '--programs', ...(development ? ['--development'] : [])];
  spawn('python3', ['-I', join(root, 'python', 'environment.py'), ...flags], { stdio: 'ignore' })
    .on('error', () => undefined)
    .unref();
}

/** npm runs a script in its package's folder, but paths on the command line are relative to the user's folder. */
function enterShellFolder() {
  const { INIT_CWD: typedIn, npm_lifecycle_event: script } = process.env;
  // INIT_CWD alone may come from another script that started this command in a folder of its choice.
  if (script === command && process.cwd() === root && existsSync(typedIn)) process.chdir(typedIn);
}

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}
