import { CONFIG_FIELDS } from './config';
import type { Field, Fields } from './fields';
import { getAllowed } from './reader';

/** Pulumi's setting for the names that it generates in AWS. */
export const AUTONAMING = {
  'pulumi:autonaming': { value: { providers: { aws: { pattern: 'triton-${stack}-${name}-${hex(7)}' } } } },
};

/**
 * Returns the keys of this project in the `config` section of Pulumi.yaml, which tells Pulumi the types and defaults, and lists all keys for
 * people.
 */
export function projectConfig(fields: Fields = CONFIG_FIELDS) {
  return Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, declared(field)]));
}

/** Declaration of a key in Pulumi.yaml: its type, description, default, and the type of its items. */
function declared(field: Field) {
  const description = describeField(field);
  switch (field.kind) {
    case 'string':
    case 'choice':
      return { type: 'string', description, default: field.default ?? '' };
    case 'integer':
      // Pulumi requires a value for a key without a default, and an integer has none that stands for a missing value.
      if (field.default === undefined) return { type: 'string', description, default: '' };
      return { type: 'integer', description, default: field.default };
    case 'number':
      throw new Error('Pulumi.yaml has no type for a fraction');
    case 'boolean':
      return { type: 'boolean', description, default: field.default };
    case 'stringArray':
      return { type: 'array', description, default: [...(field.default ?? [])], items: { type: 'string' } };
    case 'objectArray':
      return { type: 'array', description, default: [], items: { type: 'object' } };
    case 'stringMap':
    case 'object':
      return { type: 'object', description, default: {} };
    default:
      return field satisfies never;
  }
}

/** The description with the allowed values, where the type does not imply them. */
export function describeField(field: Field): string {
  switch (field.kind) {
    case 'choice':
    case 'integer':
    case 'number':
      return `${field.description} Allowed: ${getAllowed(field)}.`;
    case 'object':
    case 'objectArray':
      return `${field.description} Members: ${Object.entries(field.fields).map(nameMember).join(', ')}.`;
    case 'string': {
      const secret = field.secret === true ? ' Secret: set it with "pulumi config set --secret".' : '';
      return `${field.description}${describeFormat(field.allowed)}${secret}`;
    }
    case 'stringArray':
      return `${field.description}${describeFormat(field.choices?.join(', ') ?? field.allowed)}`;
    default:
      return field.description;
  }
}

/** The name of a member with its default: `cpu (2)`. */
function nameMember([name, field]: [string, Field]): string {
  const value = 'default' in field ? field.default : undefined;
  return value === undefined || typeof value === 'object' ? name : `${name} (${value})`;
}

const describeFormat = (allowed: string | undefined): string => (allowed === undefined ? '' : ` Allowed: ${allowed}.`);
