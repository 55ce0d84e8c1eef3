import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ControlPlane } from './control-plane';
import { runRunbook } from './doc-commands';
import type { Scratch } from './temp-dir';
import type { TestStack } from './stack';

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
