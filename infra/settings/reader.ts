import { isDeepStrictEqual } from 'node:util';
import * as pulumi from '@pulumi/pulumi';
import { describe, fieldPath, formatList, ProblemList } from '../../src/core/problems';
import { didYouMean, nearest } from '../../src/core/nearest';
import { secretFields, type Field, type Fields, type TextFault, type Values } from './fields';

/**
 * Reads the values of `fields` from a mapping. Adds all problems to `problems` in one pass. Outputs of other resources are
 * accepted where the field has `input`, so only the arguments of a component, not a stack file, may need `In`.
 */
export function readFields<const T extends Fields, In = false>(
  fields: T,
  given: Readonly<Record<string, unknown>>,
  problems: ProblemList,
  path = '',
): Values<T, In> {
  refuseUnknown(Object.keys(given), fields, problems, path);
  const values: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    const at = fieldPath(path, name);
    const isThere = isGiven(field, given[name]);
    const value = isThere ? readField(field, given[name], problems, at) : valueWithout(field);
    if (value !== undefined) values[name] = value;
    else if (isRequired(field) && !isThere) {
      problems.add(at, 'is missing', { allowed: getAllowed(field), hint: field.description });
    }
  }
  return values as Values<T, In>;
}

/** Pulumi.yaml has no notation for a missing value, so an empty text or an empty mapping stands for it. */
function isGiven(field: Field, value: unknown): boolean {
  if (value === undefined || value === null || value === '') return false;
  return !(field.kind === 'object' && !isRequired(field) && isMapping(value) && Object.keys(value).length === 0);
}

function valueWithout(field: Field): unknown {
  if ('default' in field) return field.default;
  if (field.optional === true) return undefined;
  if (field.kind === 'stringMap') return {};
  if (field.kind === 'object' && !Object.values(field.fields).some(isRequired)) {
    return readFields(field.fields, {}, new ProblemList(''));
  }
  return field.kind === 'objectArray' ? [] : undefined;
}

/** Whether a mapping that lacks the field is refused. */
export const isRequired = (field: Field): boolean => field.optional !== true && valueWithout(field) === undefined;

/** @returns undefined for an invalid value, which is added to `problems` */
function readField(field: Field, value: unknown, problems: ProblemList, at: string): unknown {
  if (isOutput(value)) return readOutput(field, value, problems, at);
  const fits = isKind(field, value);
  if (!fits) {
    const shown = secretFields({ '': field }).length > 0 ? 'a value that is not shown' : describe(value);
    problems.add(at, `is ${shown}`, { allowed: getAllowed(field), hint: hintFor(field, value) });
    return undefined;
  }
  if (field.kind === 'string') return checked(field, value as string, problems, at);
  if (field.kind === 'stringArray') return readStringArray(field, value as unknown[], problems, at);
  if (field.kind === 'stringMap') checkForms(field, value as Record<string, unknown>, problems, at);
  if (field.kind === 'object') return readFields(field.fields, value as Record<string, unknown>, problems, at);
  if (field.kind === 'objectArray') return readObjectArray(field.fields, value as unknown[], problems, at);
  return value;
}

/** Whether a value is of the field's kind. The items of lists and mappings are checked later. */
function isKind(field: Field, value: unknown): boolean {
  switch (field.kind) {
    case 'string':
      return typeof value === 'string' && (field.pattern?.test(value) ?? true);
    case 'choice':
      return field.choices.includes(value as string);
    case 'integer':
      return Number.isInteger(value) && isWithin(field, value) && (field.choices?.includes(value as number) ?? true);
    case 'number':
      return isWithin(field, value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'stringArray':
    case 'objectArray':
      return Array.isArray(value);
    case 'stringMap':
      return isMapping(value) && Object.values(value).every((text) => typeof text === 'string' || isInput(field, text));
    case 'object':
      return isMapping(value);
    default:
      return field satisfies never;
  }
}

const isWithin = ({ minimum, maximum }: { minimum: number; maximum: number }, value: unknown): boolean =>
  typeof value === 'number' && minimum <= value && value <= maximum;

const isOutput = (value: unknown): boolean => pulumi.Output.isInstance(value) || value instanceof Promise;

const isInput = (field: Field, value: unknown): boolean => 'input' in field && field.input === true && isOutput(value);

function readOutput(field: Field, value: unknown, problems: ProblemList, at: string): unknown {
  // Names of a mapping decide about other objects.
  if (isInput(field, value) && field.kind !== 'stringMap') return value;
  problems.add(at, 'is an output of another resource', {
    allowed: getAllowed(field),
    hint: 'set a value that is known before the deployment, because it decides which objects there are',
  });
  return undefined;
}

function checkForms(
  { names, values }: Field & { kind: 'stringMap' },
  given: Readonly<Record<string, unknown>>,
  problems: ProblemList,
  at: string,
): void {
  for (const [name, value] of Object.entries(given)) {
    if (names?.pattern.test(name) === false) {
      problems.add(at, `has the name ${describe(name)}`, { allowed: names.allowed });
    }
    if (typeof value === 'string' && values?.pattern.test(value) === false) {
      problems.add(fieldPath(at, name), `is ${describe(value)}`, { allowed: values.allowed });
    }
  }
}

function readStringArray(
  field: Field & { kind: 'stringArray' },
  values: unknown[],
  problems: ProblemList,
  at: string,
): string[] {
  return values.filter((value, index): value is string => {
    if (isInput(field, value)) return true;
    const fits =
      typeof value === 'string' &&
      value !== '' &&
      (field.pattern?.test(value) ?? true) &&
      (field.choices?.includes(value) ?? true);
    if (fits && values.indexOf(value) < index) {
      problems.add(`${at}[${index}]`, `repeats ${describe(value)}`, { allowed: 'each value once' });
      return false;
    }
    if (fits) return checked(field, value, problems, `${at}[${index}]`) !== undefined;
    const hint = typeof value === 'string' ? didYouMean(value, field.choices ?? []) : undefined;
    problems.add(`${at}[${index}]`, `is ${describe(value)}`, { allowed: allowedItem(field), hint });
    return false;
  });
}

/** Returns the text, or undefined if its check finds a fault, which is added to `problems`. */
function checked(
  field: { check?: (text: string) => TextFault | undefined; allowed?: string },
  text: string,
  problems: ProblemList,
  at: string,
): string | undefined {
  const fault = field.check?.(text);
  if (fault === undefined) return text;
  problems.add(at, `is ${describe(text)}${fault.reason === '' ? '' : `: ${fault.reason}`}`, {
    allowed: field.allowed ?? 'text',
    hint: fault.hint,
  });
  return undefined;
}

/** Suggests the value that was probably intended. */
function hintFor(field: Field, value: unknown): string | undefined {
  if (field.kind === 'choice' && typeof value === 'string') {
    // The nearest choice may be wrong: "one" for "none".
    const [meaning = ''] = field.description.split(/(?<=\.) /);
    return [didYouMean(value, field.choices) ?? [], meaning].flat().join(' ');
  }
  if (field.kind === 'stringArray' && typeof value === 'string') return `write it as a list: [${value}]`;
  if (field.kind === 'objectArray' && isMapping(value)) return 'write it as a list: put "- " before its first key';
  return undefined;
}

function readObjectArray(fields: Fields, values: unknown[], problems: ProblemList, at: string): object[] {
  return values.map((value, index) => {
    if (isMapping(value)) return readFields(fields, value, problems, `${at}[${index}]`);
    problems.add(`${at}[${index}]`, `is ${describe(value)}`, { allowed: mapping(fields) });
    return {};
  });
}

/** Reports unknown names, with the setting that was probably intended, or once with all settings. */
export function refuseUnknown(names: readonly string[], fields: Fields, problems: ProblemList, path: string): void {
  let allowed: string | undefined = formatList(Object.keys(fields));
  for (const name of names.filter((name) => !Object.hasOwn(fields, name))) {
    const near = findIntended(name, getPaths(fields));
    if (near === undefined) problems.add(fieldPath(path, name), 'unknown setting', { allowed });
    else problems.add(fieldPath(path, name), 'unknown setting', { hint: `did you mean ${near}?` });
    if (near === undefined) allowed = undefined;
  }
}

/** The paths of all fields, those in mappings too: `pod.nodeSelector`. */
const getPaths = (fields: Fields): string[] =>
  Object.entries(fields).flatMap(([name, field]) => [
    name,
    ...(field.kind === 'object' ? getPaths(field.fields).map((path) => `${name}.${path}`) : []),
  ]);

/** `pod.nodeSelector` for nodeSelector, `replicas` for replica, and `image` for tritonImage. */
function findIntended(name: string, paths: readonly string[]): string | undefined {
  const last = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
  return (
    paths.find((path) => last(path) === name) ??
    nearest(name, paths) ??
    paths.find((path) => name.toLowerCase().endsWith(last(path).toLowerCase()))
  );
}

/** Values that another setting leaves without an effect. */
export interface Unused<Name extends string = string> {
  names: readonly Name[];
  because: string;
  hint?: string;
}

/** Reports such values. A default counts as missing, because Pulumi passes those of Pulumi.yaml as values. */
export function refuseUnused(
  fields: Fields,
  values: object,
  { names, because, hint = 'remove it' }: Unused,
  problems: ProblemList,
  path = '',
): void {
  for (const [name, value] of Object.entries(values)) {
    const field = fields[name];
    if (field === undefined || !names.includes(name) || isDeepStrictEqual(value, valueWithout(field))) continue;
    problems.add(fieldPath(path, name), `has no effect, because ${because}`, { hint });
  }
}

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const mapping = (fields: Fields): string => `a mapping with ${formatList(Object.keys(fields))}`;

const allowedItem = (field: Field & { kind: 'stringArray' }): string =>
  field.choices === undefined ? (field.allowed ?? 'text') : field.choices.join(', ');

/** The allowed values of a field, to be printed after "allowed:". */
export function getAllowed(field: Field): string {
  switch (field.kind) {
    case 'string':
      return field.allowed ?? 'text';
    case 'choice':
      return field.choices.join(', ');
    case 'integer':
      return field.choices?.join(', ') ?? `a whole number from ${field.minimum} to ${field.maximum}`;
    case 'number':
      return `a number from ${field.minimum} to ${field.maximum}`;
    case 'boolean':
      return 'true, false';
    case 'stringArray':
      return `a list of: ${allowedItem(field)}`;
    case 'stringMap':
      return 'a mapping of text to text, with numbers, true and false in quotes';
    case 'object':
      return mapping(field.fields);
    case 'objectArray':
      return `a list, each item ${mapping(field.fields)}`;
    default:
      return field satisfies never;
  }
}
