/** Stands for what is known only when the update has made it. */
export const UNKNOWN = Symbol('unknown until the update');

/**
 * A property of a resource, or of something in it, which knows its own path. A value that is unknown before the update
 * is neither a violation nor hides others: `is` says no to it, and `mayBe` says yes.
 */
export class Value {
  /**
   * @param path how it is reached from the resource, as messages name it: `spec.template.spec`
   * @param raw what is there: undefined where nothing is, UNKNOWN where it cannot be told yet
   */
  constructor(
    readonly path: string,
    readonly raw: unknown,
  ) {}

  /** The properties of a resource as a policy gets them: reading one that is unknown throws. */
  static ofResource(properties: object): Value {
    return new Value('', known(properties));
  }

  /**
   * What lies at a path below.
   * @param path keys with dots between them, none of which has a dot itself
   */
  at(path: string): Value {
    return path.split('.').reduce<Value>((value, key) => value.key(key), this);
  }

  /** What lies at one key, which may have dots. */
  key(key: string): Value {
    const path = this.path === '' ? key : `${this.path}.${key}`;
    if (this.raw === UNKNOWN) return new Value(path, UNKNOWN);
    return new Value(path, isObject(this.raw) ? this.raw[key] : undefined);
  }

  /** The entries of a list; a single value is a list of itself, and nothing, or something unknown, has no entry. */
  items(): Value[] {
    if (!this.isThere()) return [];
    if (!Array.isArray(this.raw)) return [this];
    return this.raw.map((item, index) => new Value(`${this.path}[${index}]`, item));
  }

  /** The values of an object, each with its key in its path. */
  values(): Value[] {
    return isObject(this.raw) ? Object.keys(this.raw).map((key) => this.key(key)) : [];
  }

  /** Whether something known is there. */
  isThere(): boolean {
    return this.raw !== undefined && this.raw !== null && this.raw !== UNKNOWN;
  }

  /** Whether there is nothing, for sure. */
  isMissing(): boolean {
    return this.raw === undefined || this.raw === null;
  }

  isUnknown(): boolean {
    return this.raw === UNKNOWN;
  }

  /** Whether it is one of these, for sure. */
  is(...expected: readonly unknown[]): boolean {
    return expected.includes(this.raw);
  }

  /** Whether it is one of these, or may turn out to be. */
  mayBe(...expected: readonly unknown[]): boolean {
    return this.raw === UNKNOWN || expected.includes(this.raw);
  }

  /** Whether one of its entries is `expected`, or may turn out to be. */
  mayInclude(expected: unknown): boolean {
    return this.raw === UNKNOWN || this.items().some((item) => item.mayBe(expected));
  }

  /** Its text; undefined where it is none, or unknown. */
  text(): string | undefined {
    return typeof this.raw === 'string' ? this.raw : undefined;
  }

  /** The document in it, if it is the text of one in JSON; itself if it is an object already. */
  document(): Value {
    const text = this.text();
    if (text === undefined) return this;
    try {
      return new Value(this.path, JSON.parse(text));
    } catch {
      return new Value(this.path, undefined);
    }
  }

  /** As messages show it. */
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

/** A copy in which UNKNOWN stands for each property that cannot be read. */
function known(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const read = (key: string | number): unknown => {
    try {
      return known((value as Record<string | number, unknown>)[key]);
    } catch {
      return UNKNOWN; // Plain data throws for no other reason.
    }
  };
  if (Array.isArray(value)) return Array.from({ length: value.length }, (_, index) => read(index));
  return Object.fromEntries(Object.keys(value).map((key) => [key, read(key)]));
}
