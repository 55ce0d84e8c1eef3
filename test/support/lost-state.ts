import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError, exec } from '../../src/core/exec';
import { paths } from '../../src/core/paths';
import { fences } from './markdown';
import type { ControlPlane } from './control-plane';
import type { Scratch } from './temp-dir';
import type { TestStack } from './stack';

/** Why this machine cannot run the commands of the runbook; undefined if it can. */
export function whyNoImport(...programs: string[]): string | undefined {
  const missing = programs.filter((program) => spawnSync(program, ['--help']).error !== undefined);
  return missing.length === 0 ? undefined : `not on PATH: ${missing.join(', ')}`;
}

/** Deletes the state of a stack, imports its resources with the commands of the runbook, and updates it. */
export async function recoverLostState(stack: TestStack, plane: ControlPlane, scratch: Scratch): Promise<void> {
  await loseState(stack);
  await expect(stack.resources()).rejects.toThrow(/no stack named/);
  const kubeconfig = join(scratch.directory, 'kubeconfig.json');
  writeFileSync(kubeconfig, plane.access.kubeconfig(), { mode: 0o600 });
  const printed = await runRunbook(stack, 'STACK=prod', { KUBECONFIG: kubeconfig });
  expect(printed).not.toMatch(/PLACEHOLDER|\(replace\)|\(delete\)/);
  const steps = (await stack.changes()).filter(({ urn }) => !/:ConfigMapPatch::/.test(urn));
  expect(new Set(steps.map(({ op }) => op))).toEqual(new Set(['update']));
  await stack.up();
}

/** Expects that neither an update nor a refresh changes the stack. */
export async function expectNoChanges(stack: TestStack): Promise<void> {
  await stack.up('--expect-no-changes');
  await stack.pulumi('refresh', '--stack', stack.name, '--yes', '--skip-preview', '--expect-no-changes');
}

/** Deletes the state of a stack and all copies of the state. The resources of the stack remain. */
async function loseState(stack: TestStack): Promise<void> {
  await stack.pulumi('stack', 'rm', stack.name, '--yes', '--force', '--preserve-config');
}

/**
 * Runs the block of docs/operations.md that begins with `firstLine`, for a stack.
 * @param replace a text in the block, and what is run instead
 * @returns stdout of the block
 */
export const runRunbook = (
  stack: TestStack,
  firstLine: string,
  env: NodeJS.ProcessEnv = {},
  replace?: readonly [from: string, to: string],
): Promise<string> =>
  runBlock('operations.md', stack, firstLine, { env, replace: replace && { [replace[0]]: replace[1] } });

/** The same for any page in docs/. */
export async function runBlock(
  page: string,
  stack: Pick<TestStack, 'name' | 'directory' | 'env'>,
  firstLine: string,
  { env = {}, replace = {} }: { env?: NodeJS.ProcessEnv; replace?: Readonly<Record<string, string>> | undefined },
): Promise<string> {
  const blocks = fences(readFileSync(join(paths.root, 'docs', page), 'utf8'));
  let script = blocks.find((block) => block.text.startsWith(firstLine))?.text;
  if (script === undefined) throw new Error(`docs/${page} has no block that begins with ${firstLine}`);
  for (const [from, to] of Object.entries({ ...replace, 'STACK=prod': `STACK=${stack.name}` })) {
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
