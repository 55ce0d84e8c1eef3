/** One thing that is wrong with what the user gave us, in a form that can be printed or put into JSON. */
export interface Problem {
  /** File the problem is in, relative to the working directory where that is possible. */
  file: string;
  /** Path of the field in that file, in the file's own names: `input[0].data_type`. */
  field?: string;
  /** What is wrong, with the value received. */
  message: string;
  /** What is allowed instead. */
  allowed?: string;
  /** What to do next. */
  hint?: string;
}

/** An error the user can act on. Printed without a stack trace; anything else is a bug of ours. */
export class UserError extends Error {
  override readonly name: string = 'UserError';
  readonly hint: string | undefined;
  readonly problems: readonly Problem[];
  constructor(message: string, options: { hint?: string; problems?: readonly Problem[]; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.hint = options.hint;
    this.problems = options.problems ?? [];
  }
}

/** The command line itself is wrong. */
export class UsageError extends UserError {
  override readonly name = 'UsageError';
}

/** It did not end in one of the two states it may end in: all done, or all as before. */
export class Incomplete extends UserError {
  override readonly name = 'Incomplete';
}

/** One problem as text: `file: field: message; allowed: ...` and the next step on a line of its own. */
export function formatProblem(problem: Problem): string {
  const where = problem.field === undefined ? problem.file : `${problem.file}: ${problem.field}`;
  const allowed = problem.allowed === undefined ? '' : `; allowed: ${problem.allowed}`;
  const hint = problem.hint === undefined ? '' : `\n    -> ${problem.hint}`;
  return `${where}: ${problem.message}${allowed}${hint}`;
}

/** What the user is told: the message, each problem, and the next step, on lines of their own. */
export function formatUserError({ message, problems, hint }: UserError): string {
  const lines = [message, ...problems.map((problem) => `  ${formatProblem(problem)}`)];
  if (hint !== undefined) lines.push(`  -> ${hint}`);
  return lines.join('\n');
}
