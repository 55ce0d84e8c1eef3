#!/usr/bin/env node
// The program `triton-serving` of the npm package: runs one of its commands.
import { readFileSync } from 'node:fs';
import module from 'node:module';
import { URL } from 'node:url';

const MINIMUM_NODE = 20;

/** Name -> what it does, in the order of a project's life. */
const COMMANDS = {
  init: 'make a model from an ONNX or TorchScript file, or a project with a first model',
  local: 'serve the models of a folder on this machine, and ask them',
  trace: 'create the artifact of each trace.py, and compare it with PyTorch',
  build: 'compile programs of torch.export for a processor',
  validate: 'check the models without a server',
  infer: 'send a request to a model',
  'sync-models': 'publish the models, and have every replica serve them',
  status: 'compare what each replica serves with the release',
  releases: 'list the releases',
  rollback: 'return to an earlier release',
  promote: 'copy a release from one stack to another',
  cost: 'estimate the monthly cost of a stack',
  doctor: 'check whether an AWS account fits a stack',
  export: 'write the models to a folder that any Triton can read',
  clean: 'delete downloads and buckets of this machine that are not in use',
};

const HELP = `Serves PyTorch models on NVIDIA Triton: on this machine, and on Kubernetes with Pulumi.

  npx triton-serving COMMAND [options]

${Object.entries(COMMANDS)
  .map(([name, text]) => `  ${name.padEnd(14)}${text}`)
  .join('\n')}

  npx triton-serving COMMAND --help prints the options of a command, --version the version of this program.

Examples:
  npx triton-serving init my-models
  npx triton-serving local
`;

const [command, ...args] = process.argv.slice(2);
// Sets exitCode instead of calling process.exit, so that pending output to a pipe is written.
process.exitCode = await run();

async function run() {
  if (Number(process.versions.node.split('.')[0]) < MINIMUM_NODE) {
    return fail(`Node ${process.versions.node} is too old: Node ${MINIMUM_NODE} or newer is needed`, 1);
  }
  if (command === undefined || ['help', '--help', '-h'].includes(command)) {
    process.stdout.write(HELP);
    return command === undefined ? 2 : 0;
  }
  if (command === '--version') {
    const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
    process.stdout.write(`${version}\n`);
    return 0;
  }
  if (!Object.hasOwn(COMMANDS, command)) {
    return fail(`no such command: ${command}\n  -> commands: ${Object.keys(COMMANDS).join(' ')}`, 2);
  }
  module.enableCompileCache?.(); // Since Node 22.1.
  const { main } = await import(new URL(`commands/${command}.mjs`, import.meta.url).href);
  return main(args);
}

function fail(message, code) {
  process.stderr.write(`error: ${message}\n`);
  return code;
}
