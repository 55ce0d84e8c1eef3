import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { fences } from './markdown';
import type { TestStack } from './stack';

/** Why this machine cannot run the commands of the runbook; undefined if it can. */
export function whyNoImport(...programs: string[]): string | undefined {
  const missing = programs.filter((program) => spawnSync(program, ['--help']).error !== undefined);
  return missing.length === 0 ? undefined : `not on PATH: ${missing.join(', ')}`;
}

/** Deletes the state of a stack and all copies of the state. The resources of the stack remain. */
export async function loseState(stack: TestStack): Promise<void> {
  await stack.pulumi('stack', 'rm', stack.name, '--yes', '--force', '--preserve-config');
}

/**
 * Runs the block of docs/operations.md that begins with `firstLine`, for a stack.
 * @returns stdout of the block
 */
export async function runRunbook(
  stack: TestStack,
  firstLine: string,
  { replace = {}, env = {} }: { replace?: Record<string, string>; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const blocks = fences(readFileSync(join(paths.root, 'docs', 'operations.md'), 'utf8'));
  let text = blocks.find((block) => block.text.startsWith(firstLine))?.text;
  if (text === undefined) throw new Error(`docs/operations.md has no block that begins with ${firstLine}`);
  for (const [from, to] of Object.entries({ ...replace, 'STACK=prod': `STACK=${stack.name}` })) {
    if (!text.includes(from)) throw new Error(`"${from}" is not in the block ${firstLine}`);
    text = text.replaceAll(from, to);
  }
  const { stdout } = await exec('bash', ['-euo', 'pipefail', '-c', text], {
    cwd: stack.directory,
    env: { ...stack.env, ...env },
  });
  return stdout;
}
