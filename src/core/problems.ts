import { UserError, type Problem } from './errors';
import { shortened } from './format';

/** Collects the problems of one file. */
export class ProblemList {
  readonly problems: Problem[] = [];
  constructor(readonly file: string) {}

  /** `field` is the path in the file's own names, empty for the file as a whole. */
  add(field: string, message: string, more: { allowed?: string; hint?: string | undefined } = {}): void {
    this.problems.push({
      file: this.file,
      field: field === '' ? undefined : field,
      message,
      allowed: more.allowed,
      hint: more.hint,
    });
  }

  /** @throws UserError with all problems, if there are any */
  refuse(message: string, hint?: string): void {
    if (this.problems.length === 0) return;
    throw new UserError(message, { problems: this.problems, hint });
  }
}

/** Path of a member: `input[0].data_type`. A key that is not an identifier is quoted: `parameters["a b"]`. */
export function fieldPath(parent: string, key: string): string {
  if (!/^[A-Za-z_]\w*$/.test(key)) return `${parent}[${shorten(JSON.stringify(key))}]`;
  return parent === '' ? shorten(key) : `${parent}.${shorten(key)}`;
}

const LONGEST_QUOTE = 83;

const shorten = (text: string): string => shortened(text, LONGEST_QUOTE);

const MOST_NAMES = 30;

/** A list of names for an error message, limited to the first 30. */
export function formatList(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return more > 0 ? `${names.slice(0, MOST_NAMES).join(', ')} and ${more} more` : names.join(', ');
}

/** A value for an error message: always short, and without the contents of lists and mappings. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (typeof value === 'string') return shorten(JSON.stringify(value));
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? 'a list' : 'a mapping';
}
