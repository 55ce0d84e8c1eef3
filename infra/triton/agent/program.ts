import { buildSync } from 'esbuild';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { paths } from '../../../src/core/paths';
import type { PodPrograms } from '../../../src/local/pod';

const ENTRY = `import { main } from './src/agent/main';
main(process.argv.slice(2)).then((code) => (process.exitCode = code));`;

/** A file of this folder. By its path in the package, because Pulumi runs this code as one bundle. */
export const readScript = (name: string): string =>
  readFileSync(join(paths.root, 'infra', 'triton', 'agent', name), 'utf8');

/**
 * Flags of Node for the program. First the most memory of JavaScript objects: a program that needs more ends, and
 * supervise.sh restarts it. If it exceeded the limit of the container, the kernel would end all processes of the container,
 * because Kubernetes sets memory.oom.group. Second, downloads make much garbage, which stays in memory until this much has
 * gathered.
 */
export const NODE_FLAGS = ['--max-old-space-size=256', '--max-semi-space-size=2'] as const;

/** File name -> text. */
export type AgentProgram = Readonly<Record<'agent.cjs' | 'supervise.sh', string>>;

/** The programs with which `npm run local` runs a pod. */
export const podPrograms = (): PodPrograms => ({
  files: { ...agentProgram(), 'start-triton.sh': readScript('start-triton.sh') },
  nodeFlags: NODE_FLAGS,
});

/** What a ConfigMap has, apart from its metadata. */
export interface ConfigMapFiles {
  data: Record<string, string>;
  /** In base64. */
  binaryData: Record<string, string>;
}

/** Runs the program, which is compressed beside this file. It needs no disk, and the volume of a ConfigMap is read-only. */
const UNPACK = `const { readFileSync } = require('node:fs');
const { brotliDecompressSync } = require('node:zlib');
module._compile(brotliDecompressSync(readFileSync(__filename + '.br')).toString(), __filename);
`;

/** The highest quality, 11, saves 7% of the bytes, and takes 20 times as long in each preview and update. */
const QUALITY = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } };

/**
 * The files for a ConfigMap, whose limit is 1 MiB. Brotli, because the bytes of gzip depend on the processor and on the version
 * of Node, and a ConfigMap with other bytes replaces every pod.
 */
export function configMapFiles(): ConfigMapFiles {
  const { 'agent.cjs': program, ...data } = agentProgram();
  return {
    data: { ...data, 'agent.cjs': UNPACK },
    binaryData: { 'agent.cjs.br': brotliCompressSync(program, QUALITY).toString('base64') },
  };
}

/** Far below the limit of a ConfigMap, so that a program that doubles is noticed, and still works. It takes 240 KiB now. */
const MOST_BYTES = 384 * 1024;

/**
 * Checks the size of the program, when the package is built and in a test.
 * @returns undefined if the program is small enough, or why not
 */
export function findSizeFault(most = MOST_BYTES): string | undefined {
  const bytes = JSON.stringify(configMapFiles()).length;
  if (bytes <= most) return undefined;
  return `the program of the agent takes ${bytes} bytes of a ConfigMap, more than ${most}: Kubernetes allows 1 MiB. Import less in src/agent, or take back an update; "esbuild --analyze" shows the largest parts`;
}

let built: AgentProgram | undefined;

/** The program of the agent as one file without dependencies, and the script that keeps it running. */
export function agentProgram(): AgentProgram {
  return (built ??= { 'agent.cjs': bundle(), 'supervise.sh': readScript('supervise.sh') });
}

function bundle(): string {
  const { outputFiles } = buildSync({
    stdin: { contents: ENTRY, resolveDir: paths.root },
    bundle: true,
    minify: true,
    platform: 'node',
    // The oldest version that an image of `agent.image` may have.
    target: 'node20',
    logLevel: 'error',
    write: false,
  });
  return outputFiles.map(({ text }) => text).join('');
}
