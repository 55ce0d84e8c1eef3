// Entry point of every npm script. Requires only Node, because a fresh clone has nothing else. Checks the Node version,
// installs node_modules when package-lock.json changed, meanwhile starts the set-up of Python, compiles scripts/<command>.ts or tools/<command>.ts when its
// sources changed, and runs the command.
import module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { findBundle, getSource } from '../src/launch/bundle.mjs';
import { installedModules } from '../src/launch/modules.mjs';
import { startEarly } from '../src/launch/python.cjs';

const MINIMUM_NODE = 20;
/** Commands that need Python -> the flags of python/environment.py with which they call ensurePython. */
const PYTHON = {
  local: ['--embeddable', '--programs'],
  trace: [],
  test: ['--embeddable', '--programs', '--development'],
  check: ['--development'],
};
/** After these commands of README, the user runs pulumi, whose policy pack is a development package. */
const BEFORE_PULUMI = ['cost', 'doctor'];
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [command, ...args] = process.argv.slice(2);

if (Number(process.versions.node.split('.')[0]) < MINIMUM_NODE) {
  fail(`Node ${process.versions.node} is too old: Node ${MINIMUM_NODE} or newer is needed (see .node-version)`);
}
if (command === undefined || !/^[a-z-]+$/.test(command) || getSource(root, command) === undefined) {
  fail(`no such command: ${command ?? '(none)'}; "npm run" lists them`);
}
// Sets exitCode instead of calling process.exit, so that pending output to a pipe is written.
process.exitCode = await run();

async function run() {
  let main;
  let python;
  const startPython = () => {
    if (!Object.hasOwn(PYTHON, command) || args.includes('--help')) return undefined;
    if (process.platform !== 'linux' || process.arch !== 'x64') return undefined; // Triton cannot run there.
    return (python = startEarly(join(root, 'python'), PYTHON[command]));
  };
  try {
    const development = getSource(root, command).startsWith('tools/') || BEFORE_PULUMI.includes(command);
    const modules = await installedModules(root, { development, startPython });
    // Each step is imported only if needed, because most starts are up to date.
    const entry =
      findBundle(root, command, modules) ??
      (await (await import('../src/launch/build.mjs')).buildBundle(root, command, modules));
    enterShellFolder();
    process.setSourceMapsEnabled(true); // Stack traces name the TypeScript files.
    module.enableCompileCache?.(join(dirname(entry), 'compiled')); // Since Node 22.1.
    ({ main } = await import(pathToFileURL(entry).href));
  } catch (error) {
    if (error.name !== 'LaunchError') throw error;
    fail(error.message);
  }
  try {
    return await main(args);
  } finally {
    python?.stop(); // The command line was wrong, for example.
  }
}

/** npm runs a script in its package's folder, but paths on the command line are relative to the user's folder. */
function enterShellFolder() {
  const { INIT_CWD: typedIn, npm_lifecycle_event: script } = process.env;
  // INIT_CWD alone may come from another script that started this command in a folder of its choice.
  if (typedIn === undefined || script !== command || process.cwd() !== root) return;
  try {
    process.chdir(typedIn);
  } catch {
    // The folder was deleted in the meantime; absolute paths still work.
  }
}

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}
