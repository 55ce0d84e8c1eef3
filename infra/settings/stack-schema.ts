import { defined } from '../defined';
import { CONFIG_FIELDS } from './config';
import type { Field, Fields } from './fields';
import { describeField } from './project-config';
import { isRequired } from './reader';

type Schema = Record<string, unknown>;

const PROJECT = 'triton-serving';

/** What "pulumi config set --secret" writes instead of a value. */
const ENCRYPTED: Schema = {
  type: 'object',
  required: ['secure'],
  properties: { secure: { type: 'string' } },
  additionalProperties: false,
};

/**
 * Returns the JSON schema of a stack file (draft 7, which editors support), made from the tables that `readFields` uses. A schema cannot
 * express the checks of single texts and the rules between settings; `pulumi preview` applies those.
 */
export function stackSchema(): Schema {
  const properties = Object.fromEntries(
    Object.entries<Field>(CONFIG_FIELDS).map(([key, field]) => [
      `${PROJECT}:${key}`,
      { description: describeField(field), ...settingSchema(field) },
    ]),
  );
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Pulumi.STACK.yaml',
    description:
      'Settings of a stack. docs/infrastructure.md explains them; `pulumi preview` checks more than this schema.',
    type: 'object',
    properties: {
      config: {
        type: ['object', 'null'],
        properties,
        // Other projects and providers have keys of their own.
        propertyNames: { if: { pattern: `^${PROJECT}:` }, then: { enum: Object.keys(properties) } },
      },
    },
  };
}

/** How the text begins that "pulumi config set" writes for a number, a list or a mapping. */
const TEXT_BEGINS: Partial<Record<Field['kind'], string>> = {
  integer: '-?\\d+$',
  stringArray: '\\[',
  objectArray: '\\[',
  stringMap: '\\{',
  object: '\\{',
};

/** A value of the stack file itself, which may also be text. Empty text stands for a missing value. */
function settingSchema(field: Field): Schema {
  if (field.kind === 'boolean') return { enum: [true, false, 'true', 'false'] };
  const schema = fieldSchema(field);
  const begins = TEXT_BEGINS[field.kind];
  return begins === undefined ? schema : { ...schema, type: [schema['type'], 'string'], pattern: `^(${begins}|$)` };
}

function fieldSchema(field: Field): Schema {
  switch (field.kind) {
    case 'string':
      if (field.secret !== true) return text(field);
      return { anyOf: [field.isPublic === undefined ? { const: '' } : text(field), ENCRYPTED] };
    case 'choice':
      return { enum: field.choices };
    case 'integer':
      return defined({ type: 'integer', ...limits(field), enum: field.choices });
    case 'number':
      return { type: 'number', ...limits(field) };
    case 'boolean':
      return { type: 'boolean' };
    case 'stringArray':
      return { type: 'array', items: field.choices ? { enum: field.choices } : text(field), uniqueItems: true };
    case 'stringMap':
      return defined({
        type: 'object',
        propertyNames: field.names && { pattern: field.names.pattern.source },
        additionalProperties:
          field.secret === true ? { anyOf: [{ type: 'string' }, ENCRYPTED] } : text(field.values ?? {}),
      });
    case 'object':
      return objectSchema(field.fields);
    case 'objectArray':
      return { type: 'array', items: objectSchema(field.fields) };
    default:
      return field satisfies never;
  }
}

const limits = ({ minimum, maximum }: { minimum: number; maximum: number }): Schema => ({ minimum, maximum });

const text = ({ pattern }: { pattern?: RegExp }): Schema =>
  defined({ type: 'string', pattern: pattern && `^$|${pattern.source}` });

function objectSchema(fields: Fields): Schema {
  const entries = Object.entries(fields);
  return {
    type: 'object',
    properties: Object.fromEntries(
      entries.map(([name, field]) => [
        name,
        defined({
          description: describeField(field),
          default: 'default' in field ? field.default : undefined,
          ...fieldSchema(field),
        }),
      ]),
    ),
    required: entries.filter(([, field]) => isRequired(field)).map(([name]) => name),
    additionalProperties: false,
  };
}
