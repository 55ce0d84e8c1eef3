/** A problem in the user's input, in a form that can be printed or put into JSON. */
export interface Problem {
  /** File with the problem, relative to the working directory if possible. */
  file: string;
  /** Path of the field in that file, in the file's own names: `input[0].data_type`. */
  field?: string;
  /** The problem, with the value received. */
  message: string;
  /** The allowed values. */
  allowed?: string;
  /** The next step. */
  hint?: string;
}

/** An error that the user can act on. It is printed without a stack trace; any other error is a bug of ours. */
export class UserError extends Error {
  override readonly name: string = 'UserError';
  readonly hint: string | undefined;
  readonly problems: readonly Problem[];
  constructor(
    message: string,
    options: { hint?: string | undefined; problems?: readonly Problem[]; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.hint = options.hint;
    this.problems = options.problems ?? [];
  }
}

/** The command line itself is wrong. */
export class UsageError extends UserError {
  override readonly name = 'UsageError';
}

/** A command ended with neither of its two results: everything done, or everything as before. */
export class PartialFailureError extends UserError {
  override readonly name = 'PartialFailureError';
}

/** A problem as text: `file: field: message; allowed: ...`, with the next step on a line of its own. */
export function formatProblem(problem: Problem): string {
  const where = problem.field === undefined ? problem.file : `${problem.file}: ${problem.field}`;
  const allowed = problem.allowed === undefined ? '' : `; allowed: ${problem.allowed}`;
  const hint = problem.hint === undefined ? '' : `\n    -> ${problem.hint}`;
  return `${where}: ${problem.message}${allowed}${hint}`;
}

/** An error as text: the message, each problem and the next step, on lines of their own. */
export function formatUserError({ message, problems, hint }: UserError): string {
  const lines = [message, ...problems.map((problem) => `  ${formatProblem(problem)}`)];
  if (hint !== undefined) lines.push(`  -> ${hint}`);
  return lines.join('\n');
}
