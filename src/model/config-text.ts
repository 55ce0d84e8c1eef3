import protobuf from 'protobufjs/light';
import textformat from 'protobufjs/ext/textformat';
import { modelConfigType, type Int64, type ModelConfig } from './model-config';
import { didYouMean } from '../core/nearest';
import type { ProblemList } from '../core/problems';

/**
 * Returns a configuration as the text of a config.pbtxt. Fields have the order of their numbers and maps are sorted by
 * key, so that equal configurations give equal bytes.
 */
export const configText = (config: ModelConfig): string => `${textformat.toText(modelConfigType, config)}\n`;

/**
 * Reads the text of a config.pbtxt. The parser stops at the first error. Then the error is added to `list` with its
 * line, and the result is undefined.
 */
export function configFromText(text: string, list: ProblemList): ModelConfig | undefined {
  try {
    return plain(modelConfigType, textformat.fromText(modelConfigType, text), list, '') as unknown as ModelConfig;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const line = / \(line (\d+)\)$/.exec(message)?.[1] ?? getLine(message, text);
    const reason = message.replace(/ \(line \d+\)$/, '').replace(/\.inference\./g, '');
    list.add('', `line ${line}: not a ModelConfig in protobuf text format: ${reason}`, {
      hint: unknownFieldHint(reason),
    });
    return undefined;
  }
}

/**
 * Returns the line of an error that the parser reports without a line number: the smallest number of first lines
 * whose text fails with the same message.
 */
function getLine(message: string, text: string): number {
  const lines = text.split('\n');
  let [before, at] = [0, lines.length];
  while (at - before > 1) {
    const middle = (before + at) >> 1;
    if (parserMessage(lines.slice(0, middle).join('\n')) === message) at = middle;
    else before = middle;
  }
  return at;
}

function parserMessage(text: string): string | undefined {
  try {
    textformat.fromText(modelConfigType, text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function unknownFieldHint(reason: string): string | undefined {
  const [, typeName, field] = /^([\w.]+): unknown field '(\w+)'$/.exec(reason) ?? [];
  if (typeName === undefined || field === undefined) return undefined;
  const type = modelConfigType.root.lookupType(`inference.${typeName}`);
  return didYouMean(field, Object.keys(type.fields));
}

/** Converts a parsed message to plain data (see `ModelConfig`): enums become names, Longs become numbers or bigints. */
function plain(type: protobuf.Type, message: object, list: ProblemList, path: string): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const field of type.fieldsArray) {
    if (!Object.hasOwn(message, field.name)) continue;
    const value = (message as Record<string, unknown>)[field.name];
    const at = path === '' ? field.name : `${path}.${field.name}`;
    if (field instanceof protobuf.MapField) {
      const entries = Object.entries(value as object).map(([key, item]) => [key, plainValue(field, item, list, at)]);
      // The parser sets missing lists and maps to empty ones.
      if (entries.length > 0) result[field.name] = Object.fromEntries(entries);
    } else if (field.repeated) {
      const items = (value as unknown[]).map((item, index) => plainValue(field, item, list, `${at}[${index}]`));
      if (items.length > 0) result[field.name] = items;
    } else {
      result[field.name] = plainValue(field, value, list, at);
    }
  }
  return result;
}

function plainValue(field: protobuf.FieldBase, value: unknown, list: ProblemList, path: string): unknown {
  const type = field.resolve().resolvedType;
  if (type instanceof protobuf.Type) return plain(type, value as object, list, path);
  if (type instanceof protobuf.Enum) {
    const name = type.valuesById[value as number];
    if (name === undefined)
      list.add(path, `is not one of the values of ${type.name}, got ${String(value)}`, {
        allowed: Object.keys(type.values).join(', '),
      });
    return name;
  }
  if (typeof value !== 'object' || value === null) return value;
  // The remaining objects are 64-bit numbers, which the parser returns as Longs.
  const exact = BigInt((value as { toString(): string }).toString());
  const number: Int64 = Number.isSafeInteger(Number(exact)) ? Number(exact) : exact;
  if (field.type === 'int64' && typeof number === 'bigint') {
    list.add(path, `is out of range, got ${number}`, {
      allowed: `${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}`,
    });
    return undefined;
  }
  return number;
}
