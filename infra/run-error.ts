import { RunError } from '@pulumi/pulumi';
import { formatUserError, UserError } from '../src/core/errors';

/** Converts a UserError to a RunError, which Pulumi shows without a stack trace; the message lists all problems. */
export function asRunError(error: unknown): unknown {
  return error instanceof UserError ? new RunError(formatUserError(error)) : error;
}

/** Returns the result of `work`, with a RunError in place of a UserError. */
export function toRunError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asRunError(error);
  }
}
