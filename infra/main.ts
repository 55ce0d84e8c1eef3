import { RunError } from '@pulumi/pulumi';
import { formatUserError, UserError } from '../scripts/lib/errors';
import { program } from '.';

/** What the user can act on is shown without a stack trace. */
const explained = (error: unknown): unknown =>
  error instanceof UserError ? new RunError(formatUserError(error)) : error;

// Pulumi calls it, and takes what it returns for the outputs of the stack.
export = (): object => {
  try {
    return program();
  } catch (error) {
    throw explained(error);
  }
};
