import { CORE_SCHEMA, NOT_RESOLVED, YAMLException, defineScalarTag, load, mergeTag, realMapTag } from 'js-yaml';
import type { ProblemList } from '../core/problems';

/** YAML integers as numbers; as bigints where a double would lose digits. */
const intTag = defineScalarTag<number | bigint>('tag:yaml.org,2002:int', {
  implicit: true,
  implicitFirstChars: Array.from('-+0123456789'),
  resolve: (source) => {
    if (!/^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$/.test(source)) return NOT_RESOLVED;
    // No 64-bit number is that long, and converting very long ones takes quadratic time.
    if (source.length > 30) return Number(source);
    // BigInt reads no sign before 0x and 0o, which YAML does not allow there either, and none that is a plus.
    const value = source.startsWith('-') ? -BigInt(source.slice(1)) : BigInt(source.replace(/^\+/, ''));
    const asNumber = Number(value);
    return Number.isSafeInteger(asNumber) ? asNumber : value;
  },
  identify: () => false,
});

/** What the parser says of blanks and comments alone. */
const NO_DOCUMENT = 'expected a document';

/** YAML 1.2 with merge keys (`<<`) and with mappings as `Map`: keys keep their types, and none can reach a prototype. */
const SCHEMA = CORE_SCHEMA.withTags(intTag, mergeTag, realMapTag);

/**
 * The value that a YAML text holds: Map, array, string, number, bigint, boolean or null.
 * A syntax error is reported with its line and column, and the result is undefined.
 * A key that is there twice is reported, and the later one is taken, so that the rest can be checked too.
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

/** What is wrong with a YAML text, with line and column. */
export function describeYamlError(error: unknown): string {
  if (!(error instanceof YAMLException))
    return `not valid YAML: ${error instanceof Error ? error.message : String(error)}`;
  // The parser counts lines and columns from 0, editors from 1.
  const place = error.mark === undefined ? '' : `line ${error.mark.line + 1}, column ${error.mark.column + 1}: `;
  return `not valid YAML: ${place}${error.reason}`;
}
