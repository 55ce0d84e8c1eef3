import protobuf from 'protobufjs/light';
import textformat from 'protobufjs/ext/textformat';
import { readMessage } from './from-yaml';
import { modelConfigType, type ModelConfig } from './model-config';
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
    const message = modelConfigType.toObject(textformat.fromText(modelConfigType, text), { enums: String });
    return readMessage(toYamlValue(message), list);
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

/** Converts a parsed message to the values that a YAML text gives: mappings are Maps, and 64-bit numbers bigints. */
function toYamlValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toYamlValue);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof protobuf.util.Long) return BigInt((value as { toString(): string }).toString());
  return new Map(Object.entries(value).map(([key, item]) => [key, toYamlValue(item)]));
}
