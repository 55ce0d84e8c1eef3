import { RunError } from '@pulumi/pulumi';
import { formatProblem, UserError } from '../scripts/lib/errors';
import { program } from '.';

/** What the user can act on is shown without a stack trace. */
function explained(error: unknown): unknown {
  if (!(error instanceof UserError)) return error;
  const lines = [error.message, ...error.problems.map((problem) => `  ${formatProblem(problem)}`)];
  if (error.hint !== undefined) lines.push(`  -> ${error.hint}`);
  return new RunError(lines.join('\n'));
}

// Pulumi calls it, and takes what it returns for the outputs of the stack.
export = (): object => {
  try {
    return program();
  } catch (error) {
    throw explained(error);
  }
};
