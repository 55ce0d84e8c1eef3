/** Stands for a value that is unknown until the update creates it. */
export const UNKNOWN = Symbol('unknown until the update');

/**
 * A property of a resource or a part of one, with its path. A value that is unknown before the update is neither a
 * violation nor hides others: `is` returns false for it, and `mayBe` returns true.
 */
export class Value {
  /** @param raw undefined if the value is missing, UNKNOWN if it is not known yet */
  constructor(
    readonly path: string,
    readonly raw: unknown,
  ) {}

  /** Wraps the properties that a policy receives. Reading an unknown property throws, so UNKNOWN replaces it. */
  static ofResource(properties: object): Value {
    return new Value('', known(properties));
  }

  /** The value at a path below this one: keys without dots, separated by dots. */
  at(path: string): Value {
    return path.split('.').reduce<Value>((value, key) => value.key(key), this);
  }

  key(key: string): Value {
    const path = this.path === '' ? key : `${this.path}.${key}`;
    return new Value(path, this.isUnknown() ? UNKNOWN : isObject(this.raw) ? this.raw[key] : undefined);
  }

  /** The entries of a list. A single value is a list with one entry; a missing or unknown value has no entries. */
  items(): Value[] {
    if (this.isMissing() || this.isUnknown()) return [];
    if (!Array.isArray(this.raw)) return [this];
    return this.raw.map((item, index) => new Value(`${this.path}[${index}]`, item));
  }

  /** The values of an object; the path of each includes its key. */
  values(): Value[] {
    return isObject(this.raw) ? Object.keys(this.raw).map((key) => this.key(key)) : [];
  }

  isMissing(): boolean {
    return this.raw === undefined || this.raw === null;
  }

  isUnknown(): boolean {
    return this.raw === UNKNOWN;
  }

  /** Whether the value is certainly one of these. */
  is(...expected: readonly unknown[]): boolean {
    return expected.includes(this.raw);
  }

  /** Whether the value is one of these, or unknown. */
  mayBe(...expected: readonly unknown[]): boolean {
    return this.raw === UNKNOWN || expected.includes(this.raw);
  }

  /** The value as text; undefined if it is not text or unknown. */
  text(): string | undefined {
    return typeof this.raw === 'string' ? this.raw : undefined;
  }

  /** The value as a number, or the numbers that stand for a missing and for an unknown value. */
  number(missing: number, unknown: number): number {
    return this.isUnknown() ? unknown : Number(this.raw ?? missing);
  }

  /** Parses the value if it is JSON text; an object is returned unchanged. */
  document(): Value {
    if (this.text() === undefined) return this;
    try {
      return new Value(this.path, JSON.parse(this.text() ?? ''));
    } catch {
      return new Value(this.path, undefined);
    }
  }

  shown(): string {
    if (this.raw === UNKNOWN) return 'not known yet';
    if (this.isMissing()) return 'not set';
    const text = JSON.stringify(this.raw, (_, value: unknown) => (value === UNKNOWN ? '?' : value));
    return text.length <= 120 ? text : `${text.slice(0, 117)}...`;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a copy with UNKNOWN for each property that cannot be read. */
function known(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const read = (key: string | number): unknown => {
    try {
      return known((value as Record<string | number, unknown>)[key]);
    } catch {
      return UNKNOWN; // Reading plain data throws only for unknown properties.
    }
  };
  if (Array.isArray(value)) return Array.from({ length: value.length }, (_, index) => read(index));
  return Object.fromEntries(Object.keys(value).map((key) => [key, read(key)]));
}
