import type { ProblemList } from '../../src/core/problems';
import type { Field, Fields, Values } from './fields';
import type { ConfigSource } from './source';
import { STACK_FIELDS } from './stack-fields';
import { TRITON_FIELDS } from './triton-fields';

/** Every key of the configuration. Pulumi.yaml is generated from this table. */
export const CONFIG_FIELDS = { ...STACK_FIELDS, ...TRITON_FIELDS } as const satisfies Fields;

export type ConfigValues = Values<typeof CONFIG_FIELDS>;

/** Keys whose values stay secret. Pulumi encrypts them in the state. */
const SECRET_KEYS = Object.entries<Field>(CONFIG_FIELDS)
  .filter(([, field]) => 'secret' in field)
  .map(([key]) => key);

/**
 * Converts the values to their types, because Pulumi provides all values as text. Reports secrets that are not
 * encrypted, and encrypted values that would not stay so.
 */
export function parseValues(source: ConfigSource, problems: ProblemList): Record<string, unknown> {
  const fields: Fields = CONFIG_FIELDS;
  const entries = Object.entries(source.values).map(([key, value]) => {
    const field = fields[key];
    const isSecret = field?.kind === 'string' && field.secret === true && value !== '';
    const isEncrypted = source.encrypted.has(key);
    if (isSecret && field.isPublic?.(String(value)) !== true && !isEncrypted) {
      problems.add(key, 'is not encrypted', { hint: `pulumi config set --secret ${key}` });
    }
    if (isEncrypted && field !== undefined && !SECRET_KEYS.includes(key)) {
      problems.add(
        key,
        'is encrypted, but the state and the resources of the stack contain this setting in plain text',
        {
          hint: `set it without --secret if it is not secret; only ${SECRET_KEYS.join(', ')} stay encrypted`,
        },
      );
    }
    return [key, field === undefined || typeof value !== 'string' ? value : parseValue(field, value)];
  });
  return Object.fromEntries(entries) as Record<string, unknown>;
}

/** Returns text that cannot be parsed unchanged; the reader then rejects it and lists the allowed values. */
function parseValue(field: Field, text: string): unknown {
  if (field.kind === 'string' || field.kind === 'choice' || text === '') return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
