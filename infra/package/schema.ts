import { defined } from '../defined';
import type { Field, Fields } from '../settings/fields';
import { describeField } from '../settings/project-config';
import { isRequired } from '../settings/reader';
import { COMPONENTS } from './components';

type Spec = Record<string, unknown>;

/** Name of the package, and the first part of each token. */
export const PACKAGE = 'triton-serving';

const token = (name: string): string => `${PACKAGE}:index:${name}`;

/**
 * Returns the schema from which Pulumi generates the SDK of each language. It has the fields that `readFields` checks, so
 * the two cannot disagree.
 * @param version of this npm package
 */
export function packageSchema(version: string): Spec {
  const types: Record<string, Spec> = {};
  const resources = Object.entries(COMPONENTS).map(([name, { description, fields, outputs }]) => {
    const { properties: inputProperties, required: requiredInputs } = members(fields, types);
    const component = { isComponent: true, description, inputProperties, requiredInputs, ...members(outputs, types) };
    return [token(name), component] as const;
  });
  const languages = ['nodejs', 'python', 'csharp', 'java', 'go'];
  return {
    name: PACKAGE,
    version,
    description: 'PyTorch models on NVIDIA Triton: replicas, the bucket of the models, and the role that reads it.',
    license: 'Apache-2.0',
    language: Object.fromEntries(languages.map((language) => [language, { respectSchemaVersion: true }])),
    types,
    resources: Object.fromEntries(resources),
  };
}

function members(fields: Fields, types: Record<string, Spec>, path = ''): { properties: Spec; required: string[] } {
  const properties = Object.entries(fields).map(([name, field]) => {
    const type = typeOf(field, types, `${path}${name.charAt(0).toUpperCase()}${name.slice(1)}`);
    const secret = field.kind === 'string' ? field.secret : undefined;
    return [name, defined({ ...type, description: describeArgument(field), secret })] as const;
  });
  const required = Object.keys(fields).filter((name) => isRequired(fields[name] as Field));
  return { properties: Object.fromEntries(properties), required };
}

function typeOf(field: Field, types: Record<string, Spec>, name: string): Spec {
  switch (field.kind) {
    case 'string':
    case 'choice':
      return { type: 'string' };
    case 'integer':
    case 'number':
    case 'boolean':
      return { type: field.kind };
    case 'stringArray':
      return { type: 'array', items: { type: 'string' } };
    case 'stringMap':
      return { type: 'object', additionalProperties: { type: 'string' } };
    case 'object':
      return reference(field.fields, types, name);
    case 'objectArray':
      return { type: 'array', items: reference(field.fields, types, name.replace(/s$/, '')) };
    default:
      return field satisfies never;
  }
}

function reference(fields: Fields, types: Record<string, Spec>, name: string): Spec {
  types[token(name)] = { type: 'object', ...members(fields, types, name) };
  return { $ref: `#/types/${token(name)}` };
}

/** The sentence of the field with its allowed values and its default. */
function describeArgument(field: Field): string {
  // Programs mark secrets themselves.
  const text = describeField(field.kind === 'string' ? { ...field, secret: undefined } : field);
  const value = 'default' in field && field.default !== undefined ? JSON.stringify(field.default) : '[]';
  return value === '[]' || value === '{}' ? text : `${text} Default: ${value}.`;
}
