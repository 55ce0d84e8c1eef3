import { RunError } from '@pulumi/pulumi';
import { formatUserError, UserError } from '../src/core/errors';

/**
 * Returns the result of `work`. Converts a UserError to a RunError, which Pulumi shows without a stack trace; the
 * message lists all problems.
 */
export function toRunError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof UserError ? new RunError(formatUserError(error)) : error;
  }
}
