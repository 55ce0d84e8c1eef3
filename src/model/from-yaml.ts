import protobuf from 'protobufjs/light';
import { enumValues, modelConfigType, type Int64, type ModelConfig } from './model-config';
import { didYouMean } from '../core/nearest';
import { describe, fieldPath, type ProblemList } from '../core/problems';
import { parseYaml } from './yaml-text';

/** Bounds of the integer types. int64 ends at the safe integers of a double; no tensor size or version is larger. */
const INTEGERS: Record<string, readonly [min: bigint, max: bigint]> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [BigInt(Number.MIN_SAFE_INTEGER), BigInt(Number.MAX_SAFE_INTEGER)],
  uint64: [0n, 2n ** 64n - 1n],
};

/**
 * Reads the text of a model.yaml against Triton's message definition.
 *
 * Adds every error to `list`: unknown fields, wrong types, values out of range, unknown enum values, alternatives given
 * together. The result holds the valid fields, so that further rules can be checked. The result is undefined if the
 * text is not a YAML mapping.
 */
export function configFromYaml(text: string, list: ProblemList): ModelConfig | undefined {
  const value = parseYaml(text, list);
  if (value === undefined) return undefined;
  if (!(value instanceof Map)) {
    list.add('', `must be a mapping of Triton's ModelConfig fields, got ${describe(value)}`, {
      hint: 'start with "platform: pytorch_libtorch"',
    });
    return undefined;
  }
  return readMessage(value, list);
}

/** Reads a configuration from YAML values. */
export const readMessage = (value: unknown, list: ProblemList): ModelConfig =>
  new Reader(list).message(modelConfigType, value, '') as unknown as ModelConfig;

class Reader {
  constructor(private readonly list: ProblemList) {}

  /** Reads a message from a mapping. */
  message(type: protobuf.Type, value: unknown, path: string): Record<string, unknown> {
    const result: Record<string, unknown> = {};
    if (!(value instanceof Map)) {
      this.wrong(path, 'a mapping', value);
      return result;
    }
    const given = new Set<string>();
    for (const [key, item] of value as Map<unknown, unknown>) {
      if (typeof key !== 'string') {
        this.list.add(path, `field names must be strings, got ${describe(key)}`);
        continue;
      }
      const at = fieldPath(path, key);
      const field = Object.hasOwn(type.fields, key) ? type.fields[key] : undefined;
      if (field === undefined) {
        this.list.add(at, `unknown field of ${type.name}`, {
          allowed: Object.keys(type.fields).join(', '),
          hint: didYouMean(key, Object.keys(type.fields)),
        });
        continue;
      }
      given.add(key);
      const read = this.field(field.resolve(), item, at);
      if (read !== undefined) result[key] = read;
    }
    this.alternatives(type, given, path);
    return result;
  }

  /** Checks that at most one member of each oneof is given. */
  private alternatives(type: protobuf.Type, given: ReadonlySet<string>, path: string): void {
    for (const oneof of type.oneofsArray) {
      const both = oneof.oneof.filter((name) => given.has(name));
      if (both.length < 2) continue;
      this.list.add(fieldPath(path, both[1] ?? ''), `cannot be combined with ${both[0]}`, {
        allowed: `one of ${oneof.oneof.join(', ')}`,
      });
    }
  }

  private field(field: protobuf.Field, value: unknown, path: string): unknown {
    if (value === null) {
      const empty = field.resolvedType instanceof protobuf.Type && !field.repeated && !field.map;
      this.list.add(path, 'has no value', {
        hint: empty ? "write {} for Triton's defaults, or remove the line" : 'give it a value, or remove the line',
      });
      return undefined;
    }
    if (field instanceof protobuf.MapField) return this.map(field, value, path);
    if (!field.repeated) return this.single(field, value, path);
    if (!Array.isArray(value)) {
      this.wrong(path, 'a list', value, 'write it as [ ... ], or each item after "- "');
      return undefined;
    }
    const items = value
      .map((item, index) => this.single(field, item, `${path}[${index}]`))
      .filter((item) => item !== undefined);
    // Protobuf, and so Triton, does not distinguish an empty list from a missing list.
    return items.length === 0 ? undefined : items;
  }

  private map(field: protobuf.MapField, value: unknown, path: string): Record<string, unknown> | undefined {
    if (!(value instanceof Map)) {
      this.wrong(path, 'a mapping', value);
      return undefined;
    }
    const entries: [string, unknown][] = [];
    for (const [key, item] of value as Map<unknown, unknown>) {
      const at = fieldPath(path, typeof key === 'string' ? key : describe(key));
      // JSON, which is valid YAML too, has only strings as keys.
      const isQuotedNumber = field.keyType !== 'string' && typeof key === 'string' && /^\d{1,20}$/.test(key);
      const name = this.scalar(field.keyType, isQuotedNumber ? BigInt(key) : key, at);
      const read = item === null ? undefined : this.single(field, item, at);
      if (item === null) this.wrong(at, 'a value', item);
      if (name !== undefined && read !== undefined) entries.push([String(name), read]);
    }
    return entries.length === 0 ? undefined : Object.fromEntries(entries);
  }

  private single(field: protobuf.FieldBase, value: unknown, path: string): unknown {
    if (field.resolvedType instanceof protobuf.Type) return this.message(field.resolvedType, value, path);
    if (field.resolvedType instanceof protobuf.Enum) return this.enumName(field.resolvedType, value, path);
    return this.scalar(field.type, value, path);
  }

  private enumName(type: protobuf.Enum, value: unknown, path: string): string | undefined {
    if (typeof value === 'string' && Object.hasOwn(type.values, value)) return value;
    this.list.add(path, `is not one of the values of ${type.name}, got ${describe(value)}`, {
      allowed: enumValues(type).join(', '),
      hint: enumHint(type, value),
    });
    return undefined;
  }

  private scalar(type: string, value: unknown, path: string): string | number | bigint | boolean | undefined {
    const bounds = INTEGERS[type];
    if (bounds !== undefined) return this.integer(bounds, value, path);
    if (type === 'string') return this.text(value, path);
    if (type === 'bool') {
      if (typeof value === 'boolean') return value;
      this.wrong(path, 'true or false', value);
      return undefined;
    }
    // float and double are the only other types in Triton's configuration (a test verifies that).
    if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
    this.wrong(path, 'a number', value);
    return undefined;
  }

  private text(value: unknown, path: string): string | undefined {
    if (typeof value !== 'string') {
      const quotable = typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
      this.wrong(path, 'a string', value, quotable ? `put it in quotes: "${value}"` : undefined);
    } else if (/\p{Surrogate}/u.test(value)) {
      this.wrong(path, 'a string that UTF-8 can encode', value);
    } else {
      return value;
    }
    return undefined;
  }

  private integer([min, max]: readonly [bigint, bigint], value: unknown, path: string): Int64 | undefined {
    if (typeof value !== 'bigint' && !(typeof value === 'number' && Number.isInteger(value))) {
      this.wrong(path, 'a whole number', value);
    } else if (BigInt(value) < min || BigInt(value) > max) {
      this.list.add(path, `is out of range, got ${value}`, { allowed: `${min} to ${max}` });
    } else {
      return Number.isSafeInteger(Number(value)) ? Number(value) : BigInt(value);
    }
    return undefined;
  }

  private wrong(path: string, expected: string, value: unknown, hint?: string): void {
    this.list.add(path, `must be ${expected}, got ${describe(value)}`, { hint });
  }
}

/** Suggests an enum value: TYPE_FP32 for `FP32`, KIND_GPU for `gpu`. */
function enumHint(type: protobuf.Enum, value: unknown): string | undefined {
  const names = enumValues(type);
  if (typeof value !== 'string') return undefined;
  const meant = names.find((name) => name.endsWith(`_${value.toUpperCase()}`));
  return meant === undefined ? didYouMean(value, names) : `did you mean "${meant}"?`;
}
