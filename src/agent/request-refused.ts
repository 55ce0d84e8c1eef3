import { UserError } from '../core/errors';

/** An answer of the control API other than success. */
export class RequestRefusedError extends UserError {
  override readonly name = 'RequestRefusedError';
  constructor(
    /** HTTP status. */
    readonly status: number,
    message: string,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}
