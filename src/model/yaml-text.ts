import { CORE_SCHEMA, NOT_RESOLVED, YAMLException, defineScalarTag, load, mergeTag, realMapTag } from 'js-yaml';
import type { ProblemList } from '../core/problems';

/** YAML integers as numbers, or as bigints if a double would lose digits. */
const intTag = defineScalarTag<number | bigint>('tag:yaml.org,2002:int', {
  implicit: true,
  implicitFirstChars: Array.from('-+0123456789'),
  resolve: (source) => {
    if (!/^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$/.test(source)) return NOT_RESOLVED;
    // No 64-bit number has more digits, and converting very long numbers takes quadratic time.
    if (source.length > 30) return Number(source);
    // BigInt accepts no sign before 0x and 0o, which YAML does not allow either, and no plus sign.
    const value = source.startsWith('-') ? -BigInt(source.slice(1)) : BigInt(source.replace(/^\+/, ''));
    const asNumber = Number(value);
    return Number.isSafeInteger(asNumber) ? asNumber : value;
  },
  identify: () => false,
});

/** The parser's message for a text of blanks and comments only. */
const NO_DOCUMENT = 'expected a document';

/** YAML 1.2 with merge keys (`<<`). Mappings are `Map`s, so that keys keep their types and cannot reach a prototype. */
const SCHEMA = CORE_SCHEMA.withTags(intTag, mergeTag, realMapTag);

/**
 * Parses a YAML text: Map, array, string, number, bigint, boolean or null.
 * A syntax error is reported with its line and column, and the result is undefined.
 * A duplicate key is reported, and its later value is used, so that the rest can be checked too.
 */
export function parseYaml(text: string, list: ProblemList): unknown {
  try {
    return load(text, { schema: SCHEMA });
  } catch (error) {
    if (error instanceof YAMLException && error.reason.startsWith(NO_DOCUMENT)) {
      list.add('', 'is empty', { hint: 'start with "platform: pytorch_libtorch"' });
      return undefined;
    }
    list.add('', describeYamlError(error));
    if (!(error instanceof YAMLException) || error.reason !== 'duplicated mapping key') return undefined;
  }
  try {
    return load(text, { schema: SCHEMA, json: true });
  } catch (error) {
    list.add('', describeYamlError(error));
    return undefined;
  }
}

/** Describes an error in a YAML text, with line and column. */
export function describeYamlError(error: unknown): string {
  if (!(error instanceof YAMLException))
    return `not valid YAML: ${error instanceof Error ? error.message : String(error)}`;
  // The parser counts lines and columns from 0, editors from 1.
  const place = error.mark === undefined ? '' : `line ${error.mark.line + 1}, column ${error.mark.column + 1}: `;
  return `not valid YAML: ${place}${error.reason}`;
}
