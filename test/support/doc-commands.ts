import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { fences } from './markdown';

export const RUNBOOK = join(paths.root, 'docs', 'runbook.md');

/** The alerts that the runbook explains. A test compares them with the rules. */
export const ALERT_NAMES = [...readFileSync(RUNBOOK, 'utf8').matchAll(/^## (Triton\w+)$/gm)].map(
  ([, name = '']) => name,
);

/** The section of an alert. */
export function section(alert: string): string {
  const [, found = ''] = readFileSync(RUNBOOK, 'utf8').split(`\n## ${alert}\n`);
  return found.split('\n## ')[0] ?? '';
}

/** The commands with which a section begins; none if it refers to another one. */
export const firstCommands = (alert: string): string[] =>
  /^```sh\n([^]*?)\n```$/m.exec(section(alert))?.[1]?.split('\n') ?? [];

/** The stack for which commands run, and the folder and the variables with which they run. */
interface Stack {
  name: string;
  directory: string;
  env: NodeJS.ProcessEnv;
}

/** Names the programs of a documented command that this machine lacks; undefined if it has all. */
export function whyMissing(...programs: string[]): string | undefined {
  const missing = programs.filter((program) => spawnSync(program, ['--help']).error !== undefined);
  return missing.length === 0 ? undefined : `not on PATH: ${missing.join(', ')}`;
}

/**
 * Runs the block of a page in docs/ that begins with `firstLine`, for a stack.
 * @param options `replace`: texts in the block, and what is run instead
 * @returns stdout of the block
 */
export async function runBlock(
  page: string,
  stack: Stack,
  firstLine: string,
  { env = {}, replace = {} }: { env?: NodeJS.ProcessEnv; replace?: Readonly<Record<string, string>> | undefined } = {},
): Promise<string> {
  const blocks = fences(readFileSync(join(paths.root, 'docs', page), 'utf8'));
  let script = blocks.find((block) => block.text.startsWith(firstLine))?.text;
  if (script === undefined) throw new Error(`docs/${page} has no block that begins with ${firstLine}`);
  const names: Record<string, string> = script.includes('STACK') ? { 'STACK=prod': `STACK=${stack.name}` } : {};
  for (const [from, to] of Object.entries({ ...replace, ...names })) {
    if (!script.includes(from)) throw new Error(`the block ${firstLine} does not contain ${from}`);
    script = script.replaceAll(from, to);
  }
  const options = { cwd: stack.directory, env: { ...stack.env, ...env } };
  try {
    return (await exec('bash', ['-euo', 'pipefail', '-c', script], options)).stdout;
  } catch (error) {
    // Pulumi reports errors on stdout.
    if (error instanceof CommandError) throw new Error(`${error.message}\n${error.output.stdout}`, { cause: error });
    throw error;
  }
}

/** First line of the commands of docs/components.md that move a stack to a folder with this package. */
export const MOVE_TO_PACKAGE = 'STACK=prod # to a package';

/** What runs instead in these commands: in `folder`, with the node modules of this machine instead of a registry. */
export const inFolder = (folder: string): Record<string, string> => ({
  '../serving': folder,
  'npm install --save-exact ./triton-serving-0.1.0.tgz': `mkdir -p node_modules/triton-serving
tar -xzf triton-serving-0.1.0.tgz -C node_modules/triton-serving --strip-components 1
ln -s '${paths.root}'/node_modules/* node_modules/`,
});
