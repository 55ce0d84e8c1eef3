import { buildSync } from 'esbuild';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';
import type { PodPrograms } from '../../../src/local/pod';

/** The entry point of src/agent, as a program. */
const ENTRY = `import { main } from './src/agent/main';
main(process.argv.slice(2)).then((code) => (process.exitCode = code));`;

/** A file of this folder. By its path in the package, because Pulumi runs this code as one bundle. */
export const readScript = (name: string): string =>
  readFileSync(join(paths.root, 'infra', 'triton', 'agent', name), 'utf8');

/**
 * Flags of Node for the program. First the most memory of JavaScript objects: a program that needs more ends, and
 * supervise.sh restarts it. If it exceeded the limit of the container, the kernel would end all processes of the container,
 * because Kubernetes sets memory.oom.group. Second, downloads make much garbage, which stays in memory until this much has
 * gathered (docs/benchmarks.md).
 */
export const NODE_FLAGS = ['--max-old-space-size=256', '--max-semi-space-size=2'] as const;

/** File name -> text. */
export type AgentProgram = Readonly<Record<'agent.cjs' | 'supervise.sh', string>>;

/** The programs with which `npm run local` runs a pod. */
export const podPrograms = (): PodPrograms => ({
  files: { ...agentProgram(), 'start-triton.sh': readScript('start-triton.sh') },
  nodeFlags: NODE_FLAGS,
});

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
    // The oldest version that an image of `agentImage` may have.
    target: 'node20',
    logLevel: 'error',
    write: false,
  });
  return outputFiles.map(({ text }) => text).join('');
}
