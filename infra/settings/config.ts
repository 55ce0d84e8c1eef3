import type { ProblemList } from '../../src/core/problems';
import { secretFields, type Field, type Fields, type Values } from './fields';
import type { ConfigSource } from './source';
import { STACK_FIELDS } from './stack-fields';
import { TRITON_FIELDS } from './triton-fields';

/** Every key of the configuration. Pulumi.yaml is generated from this table. */
export const CONFIG_FIELDS = { ...STACK_FIELDS, ...TRITON_FIELDS } as const satisfies Fields;

export type ConfigValues = Values<typeof CONFIG_FIELDS>;

/** The values that stay secret. Pulumi encrypts them in the state. */
const SECRETS = secretFields(CONFIG_FIELDS);

const isWithin = (path: string, outer: string): boolean => path === outer || path.startsWith(`${outer}.`);

/** Converts the values to their types, because Pulumi provides all values as text. */
export function parseValues({ values }: ConfigSource): Record<string, unknown> {
  const fields: Fields = CONFIG_FIELDS;
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => {
      const field = fields[key];
      return [key, field === undefined || typeof value !== 'string' ? value : parseValue(field, value)];
    }),
  );
}

/** Returns text that cannot be parsed unchanged; the reader then rejects it and lists the allowed values. */
function parseValue(field: Field, text: string): unknown {
  if (field.kind === 'string' || field.kind === 'choice' || text === '') return text;
  if (field.kind === 'integer' && !/^-?\d+$/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Reports secrets that are not encrypted, and encrypted values that would not stay so. */
export function checkSecrets(
  values: Readonly<Record<string, unknown>>,
  encrypted: ReadonlySet<string>,
  problems: ProblemList,
): void {
  for (const [path, field] of SECRETS) {
    const value = path.split('.').reduce<unknown>((of, name) => (of as Record<string, unknown> | null)?.[name], values);
    if (field.kind !== 'string' || typeof value !== 'string' || value === '' || field.isPublic?.(value) === true)
      continue;
    if ([...encrypted].some((one) => isWithin(path, one))) continue;
    const option = path.includes('.') ? ' --path' : '';
    problems.add(path, 'is not encrypted', { hint: `pulumi config set --secret${option} ${path}` });
  }
  const paths = SECRETS.map(([path]) => path);
  for (const path of [...encrypted].filter((one) => one.replace(/\..*/, '') in CONFIG_FIELDS)) {
    if (paths.some((secret) => isWithin(secret, path) || isWithin(path, secret))) continue;
    problems.add(
      path,
      'is encrypted, but the state and the resources of the stack contain this setting in plain text',
      {
        hint: `set it without --secret if it is not secret; only ${paths.join(', ')} stay encrypted`,
      },
    );
  }
}
