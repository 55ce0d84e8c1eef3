import { RunError } from '@pulumi/pulumi';
import { formatUserError, UserError } from '../src/core/errors';

/**
 * What `work` gives. An error that the user can act on is one that Pulumi shows without a stack trace, with all
 * problems.
 */
export function explained<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof UserError ? new RunError(formatUserError(error)) : error;
  }
}
