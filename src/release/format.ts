import { UserError } from '../core/errors';

/** Format of head.json and of the manifests. */
export const FORMAT = 4;

/** The content of an object is not what this tool writes. The message names the object, the field and the value. */
export class FormatError extends UserError {
  override readonly name = 'FormatError';
}

/** Another version of this tool wrote the object. */
export class OtherFormatError extends FormatError {}

/** A value of JSON is not what was expected. The message names the field and the value. */
export class ValueError extends Error {}

/** Reads a value of JSON. @param path of the value in the whole, for the message: `models.bert.served` */
export type Read<T> = (value: unknown, path: string) => T;

/** @throws ValueError */
function refuse(value: unknown, path: string, allowed: string): never {
  const got = value === undefined ? 'missing' : JSON.stringify(value).slice(0, 100);
  throw new ValueError(`${path || 'the content'} is ${got}; allowed: ${allowed}`);
}

const check =
  <T>(allowed: string, accepts: (value: unknown) => boolean): Read<T> =>
  (value, path) =>
    accepts(value) ? (value as T) : refuse(value, path, allowed);

const record = check<Record<string, unknown>>(
  'an object',
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
);
const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

export const text = (pattern?: RegExp): Read<string> =>
  check(
    pattern === undefined ? 'a text' : `a text like ${pattern.source}`,
    (value) => typeof value === 'string' && pattern?.test(value) !== false,
  );
export const boolean = check<boolean>('true or false', (value) => typeof value === 'boolean');
/** True or missing. */
export const flag = check<true | undefined>('true', (value) => value === true || value === undefined);
/** A whole number. */
export const count = (least = 0): Read<number> =>
  check(
    `a whole number of at least ${least}`,
    (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= least,
  );

export const optional =
  <T>(read: Read<T>): Read<T | undefined> =>
  (value, path) =>
    value === undefined ? undefined : read(value, path);

/** @param least number of items */
export const list = <T>(read: Read<T>, least = 0): Read<T[]> => {
  const items = check<unknown[]>(
    `a list of at least ${least}`,
    (value) => Array.isArray(value) && value.length >= least,
  );
  return (value, path) => items(value, path).map((item, i) => read(item, `${path}[${i}]`));
};

/** A map by name. It has no prototype, because a name may be `constructor`. */
export const map =
  <T>(read: Read<T>, names = /./): Read<Record<string, T>> =>
  (value, path) => {
    const items = Object.create(null) as Record<string, T>;
    for (const [name, item] of Object.entries(record(value, path))) {
      if (!names.test(name)) refuse(name, path, `names like ${names.source}`);
      items[name] = read(item, join(path, name));
    }
    return items;
  };

/** An object with these fields. Others are ignored. */
export const object =
  <T extends object>(fields: { [K in keyof T]-?: Read<T[K]> }): Read<T> =>
  (value, path) => {
    const given = record(value, path);
    const read = Object.entries<Read<unknown>>(fields).map(([name, one]) => [name, one(given[name], join(path, name))]);
    return Object.fromEntries(read) as T;
  };

/**
 * Parses an object of the bucket.
 * @param where for messages: `s3://bucket/key`
 * @throws FormatError
 */
export function parseObject<T>(body: Buffer, where: string, read: Read<T>): T {
  // An earlier version of head.json would not help: agents never follow an older one.
  const isHead = where.endsWith('/head.json');
  const hint = isHead ? 'write it again: rollback --repair' : 'restore the first version of that object';
  try {
    const content = JSON.parse(body.toString('utf8')) as unknown;
    const { format } = record(content, '');
    if (format === FORMAT) return read(content, '');
    throw new OtherFormatError(
      `cannot read ${where}: its format is ${String(format)}, and this version reads ${FORMAT}`,
      { hint: 'use the version of this tool that wrote the object' },
    );
  } catch (cause) {
    if (cause instanceof FormatError) throw cause;
    const reason = cause instanceof ValueError ? cause.message : 'it is not JSON, so this tool did not write it';
    throw new FormatError(`cannot read ${where}: ${reason}`, { hint, cause });
  }
}
