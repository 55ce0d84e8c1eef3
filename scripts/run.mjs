// Entry point of every npm script. It needs nothing but Node itself, because on a fresh clone nothing else is there:
// it checks the Node version, installs node_modules when package-lock.json changed, compiles scripts/<command>.ts or tools/<command>.ts when
// its sources changed, and runs it.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findBundle, sourceOf } from '../src/launch/bundle.mjs';
import { loadBundle } from '../src/launch/load.mjs';
import { installedModules } from '../src/launch/modules.mjs';

const MINIMUM_NODE = 20;
const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [command, ...args] = process.argv.slice(2);

if (Number(process.versions.node.split('.')[0]) < MINIMUM_NODE) {
  fail(`Node ${process.versions.node} is too old: Node ${MINIMUM_NODE} or newer is needed (see .node-version)`);
}
if (command === undefined || !/^[a-z-]+$/.test(command) || sourceOf(root, command) === undefined) {
  fail(`no such command: ${command ?? '(none)'}; "npm run" lists them`);
}
// Set rather than call process.exit: what is still being written to a pipe must arrive.
process.exitCode = await run();

async function run() {
  let main;
  try {
    const modules = await installedModules(root);
    // Each step is loaded only where it is needed: most starts find everything in place.
    const entry =
      findBundle(root, command, modules) ??
      (await (await import('../src/launch/build.mjs')).buildBundle(root, command, modules));
    enterShellFolder();
    ({ main } = loadBundle(root, entry, !args.includes('--help')));
  } catch (error) {
    if (error.name !== 'LaunchError') throw error;
    fail(error.message);
  }
  return main(args);
}

/** npm runs a script in the folder of its package; paths on the command line start where the user typed the command. */
function enterShellFolder() {
  const { INIT_CWD: typedIn, npm_lifecycle_event: script } = process.env;
  // The environment alone may come from another script, which started this command in a folder of its choice.
  if (typedIn === undefined || script !== command || process.cwd() !== root) return;
  try {
    process.chdir(typedIn);
  } catch {
    // The folder was deleted meanwhile; absolute paths still work.
  }
}

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}
