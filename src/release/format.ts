import { UserError } from '../core/errors';

/** Format of head.json and of the manifests. */
export const FORMAT = 4;

/** A SHA-256 in hex. */
export const SHA256_HEX = /^[0-9a-f]{64}$/;

/** The content of an object is not what this tool writes. The message names the object, the field and the value. */
export class FormatError extends UserError {
  override readonly name = 'FormatError';
}

/** Another version of this tool wrote the object. */
export class OtherFormatError extends FormatError {}

/** An earlier version of head.json would not help: agents never follow an older one. */
const hintFor = (where: string): string =>
  where.endsWith('/head.json')
    ? 'write it again: npm run rollback -- --repair'
    : 'restore the first version of that object';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads the fields of one JSON object, and names each field that is wrong.
 * @param where for messages: `s3://bucket/key`
 */
export class FieldReader {
  private constructor(
    private readonly fields: Fields,
    private readonly where: string,
    private readonly path: string,
  ) {}

  /** @throws FormatError if `body` is not a JSON object of this format */
  static parse(body: Buffer, where: string): FieldReader {
    let content: unknown;
    try {
      content = JSON.parse(body.toString('utf8'));
    } catch (cause) {
      throw new FormatError(`cannot read ${where}: it is not JSON, so this tool did not write it`, {
        hint: hintFor(where),
        cause,
      });
    }
    const reader = FieldReader.of(content, where, '');
    const format = reader.fields['format'];
    if (format === FORMAT) return reader;
    throw new OtherFormatError(
      `cannot read ${where}: its format is ${String(format)}, and this version reads ${FORMAT}`,
      {
        hint: 'use the version of this tool that wrote the object',
      },
    );
  }

  private static of(value: unknown, where: string, path: string): FieldReader {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return new FieldReader(value as Fields, where, path);
    }
    throw new FormatError(`cannot read ${where}: ${path || 'the content'} is ${describe(value)}; allowed: an object`);
  }

  text(name: string, pattern?: RegExp): string {
    const value = this.fields[name];
    if (typeof value === 'string' && pattern?.test(value) !== false) return value;
    return this.refuse(name, pattern === undefined ? 'a text' : `a text like ${pattern.source}`);
  }

  optionalText(name: string): string | undefined {
    return this.fields[name] === undefined ? undefined : this.text(name);
  }

  flag(name: string): true | undefined {
    const value = this.fields[name];
    if (value === undefined || value === true) return value;
    return this.refuse(name, 'true');
  }

  /** A map of texts; undefined if it is missing. */
  optionalTextMap(name: string): Record<string, string> | undefined {
    const value = this.fields[name];
    if (value === undefined) return undefined;
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isMap && Object.values(value).every((item) => typeof item === 'string')) return value as Record<string, string>;
    return this.refuse(name, 'a map of texts');
  }

  /** A whole number of at least 0. */
  count(name: string): number {
    const value = this.fields[name];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
    return this.refuse(name, 'a whole number of at least 0');
  }

  optionalCount(name: string): number | undefined {
    return this.fields[name] === undefined ? undefined : this.count(name);
  }

  texts(name: string): string[] {
    const value = this.fields[name];
    if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
    return this.refuse(name, 'a list of texts');
  }

  counts(name: string): number[] {
    const value = this.fields[name];
    if (Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0))
      return value as number[];
    return this.refuse(name, 'a list of whole numbers');
  }

  /** An object; undefined if it is missing. */
  optional<T>(name: string, read: (item: FieldReader) => T): T | undefined {
    const value = this.fields[name];
    return value === undefined ? undefined : read(FieldReader.of(value, this.where, `${this.path}${name}`).nested());
  }

  /** The objects in a list. */
  list<T>(name: string, read: (item: FieldReader) => T): T[] {
    const value = this.fields[name];
    if (!Array.isArray(value)) return this.refuse(name, 'a list');
    return value.map((item, i) => read(FieldReader.of(item, this.where, `${this.path}${name}[${i}]`).nested()));
  }

  /** The objects in a map, by name. */
  map<T>(name: string, read: (item: FieldReader, key: string) => T): Record<string, T> {
    const value = this.fields[name];
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return this.refuse(name, 'an object');
    // Without a prototype: a key may be `constructor`.
    const items = Object.create(null) as Record<string, T>;
    for (const [key, item] of Object.entries(value)) {
      items[key] = read(FieldReader.of(item, this.where, `${this.path}${name}.${key}`).nested(), key);
    }
    return items;
  }

  /** @throws FormatError that names the field and its value */
  refuse(name: string, allowed: string): never {
    throw new FormatError(
      `cannot read ${this.where}: ${this.path}${name} is ${describe(this.fields[name])}; allowed: ${allowed}`,
      { hint: hintFor(this.where) },
    );
  }

  private nested(): FieldReader {
    return new FieldReader(this.fields, this.where, `${this.path}.`);
  }
}

function describe(value: unknown): string {
  return value === undefined ? 'missing' : JSON.stringify(value).slice(0, 100);
}
