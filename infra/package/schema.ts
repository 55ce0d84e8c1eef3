import { defined } from '../defined';
import type { Field, Fields } from '../settings/fields';
import { describeField } from '../settings/project-config';
import { isRequired } from '../settings/reader';
import { EXAMPLES } from './arguments';
import { COMPONENTS, type PackageComponent } from './components';

type Spec = Record<string, unknown>;

/** Name of the package, and the first part of each token. */
export const PACKAGE = 'triton-serving';

const token = (name: string): string => `${PACKAGE}:index:${name}`;
const LANGUAGES = ['nodejs', 'python', 'csharp', 'java', 'go'];
const MAP_OF_TEXT: Spec = { type: 'object', additionalProperties: { type: 'string' } };

/** Arguments and outputs that every component has. */
export const COMMON_ARGUMENTS: Readonly<Record<string, Spec>> = {
  transform: {
    type: 'object',
    additionalProperties: { $ref: 'pulumi.json#/Any' },
    description:
      'What is merged into the arguments of each child resource of a kind, as a JSON merge patch: null removes a member, and a list replaces a list. For what no argument offers.' +
      describeExample('transform'),
  },
};
const COMMON_OUTPUTS: Readonly<Record<string, Spec>> = {
  nodes: {
    ...MAP_OF_TEXT,
    description:
      'Id of each child resource by KIND/NAME, such as "Deployment/faces", for functions that read resources: Deployment.get.',
  },
};

/**
 * Returns the schema of the package, from which Pulumi generates the SDK of each language. The fields are those that
 * `readFields` checks, so the two cannot disagree.
 * @param version of this npm package
 */
export function packageSchema(version: string): Spec {
  const types: Record<string, Spec> = {};
  const resources = Object.entries(COMPONENTS).map(([name, component]) => [token(name), resource(component, types)]);
  return {
    name: PACKAGE,
    displayName: 'Triton Serving',
    version,
    description: 'PyTorch models on NVIDIA Triton: replicas, the bucket of the models, GPU nodes.',
    keywords: ['pulumi', 'kind/component', 'category/infrastructure'],
    license: 'Apache-2.0',
    language: Object.fromEntries(LANGUAGES.map((language) => [language, { respectSchemaVersion: true }])),
    types,
    resources: Object.fromEntries(resources) as Spec,
  };
}

function resource({ description, fields, outputs }: PackageComponent, types: Record<string, Spec>): Spec {
  const { required, properties } = members(fields, types, '');
  return {
    isComponent: true,
    description,
    inputProperties: { ...properties, ...COMMON_ARGUMENTS },
    requiredInputs: required,
    properties: { ...outputs, ...COMMON_OUTPUTS },
    required: Object.entries(outputs)
      .filter(([, { optional }]) => optional !== true)
      .map(([name]) => name)
      .concat(Object.keys(COMMON_OUTPUTS)),
  };
}

/** @param path prefix of the names of types, empty for the arguments themselves */
function members(fields: Fields, types: Record<string, Spec>, path: string): { required: string[]; properties: Spec } {
  const entries = Object.entries(fields);
  return {
    required: entries.filter(([, field]) => isRequired(field)).map(([name]) => name),
    properties: Object.fromEntries(
      entries.map(([name, field]) => [
        name,
        defined({
          ...typeOf(field, types, `${path}${name.charAt(0).toUpperCase()}${name.slice(1)}`),
          description: describeArgument(field, path !== '') + (path === '' ? describeExample(name) : ''),
          secret: field.kind === 'string' ? field.secret : undefined,
        }),
      ]),
    ),
  };
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
      return MAP_OF_TEXT;
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

/** The sentence of the field, its allowed values and its default. Members say theirs where their mapping is described. */
function describeArgument(field: Field, isMember: boolean): string {
  // Programs mark secrets themselves.
  const text = describeField(field.kind === 'string' ? { ...field, secret: undefined } : field);
  const value = 'default' in field && !Array.isArray(field.default) ? field.default : undefined;
  if (value !== undefined) return `${text} Default: ${JSON.stringify(value)}.`;
  return isMember || isRequired(field) || /Defaults?:|Empty:/.test(text) ? text : `${text} Default: none.`;
}

function describeExample(name: string): string {
  const example = EXAMPLES[name];
  return example === undefined ? '' : ` Example: ${JSON.stringify(example)}`;
}
