import protobuf from 'protobufjs/light';
import { DESCRIPTIONS } from './descriptions';
import { INTEGERS } from './from-yaml';
import { modelConfigType } from './model-config';
import { PLATFORMS } from './platforms';

type Schema = Record<string, unknown>;

const PACKAGE = '.inference.';

const getName = (type: protobuf.Type): string => type.fullName.slice(PACKAGE.length);

/**
 * JSON schema of a model.yaml (draft 7, which editors support), made from the definition that `configFromYaml` uses.
 * The schema refuses what `configFromYaml` refuses. A schema cannot express the rules between fields;
 * `npm run validate` checks those.
 */
export function modelSchema(): Schema {
  const messages = new Map<string, Schema>();
  addMessage(modelConfigType, messages);
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'model.yaml',
    description:
      "Configuration of a model: Triton's ModelConfig in YAML. `npm run validate` checks more than this schema.",
    $ref: reference(modelConfigType),
    definitions: Object.fromEntries([...messages].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

const reference = (type: protobuf.Type): string => `#/definitions/${getName(type)}`;

function addMessage(type: protobuf.Type, messages: Map<string, Schema>): void {
  const name = getName(type);
  if (messages.has(name)) return;
  const schema: Schema = { type: 'object' };
  messages.set(name, schema);
  const properties = type.fieldsArray.map((field): [string, Schema] => {
    const value = fieldSchema(field.resolve(), messages);
    const description = DESCRIPTIONS[name]?.[field.name] ?? '';
    // Draft 7 ignores everything beside a $ref.
    return [field.name, { description, ...('$ref' in value ? { allOf: [value] } : value) }];
  });
  schema['properties'] = Object.fromEntries(properties);
  schema['additionalProperties'] = false;
  const rules = [...type.oneofsArray.flatMap(({ oneof }) => atMostOne(oneof)), ...(EXTRAS[name] ?? [])];
  if (rules.length > 0) schema['allOf'] = rules;
}

/** Each two of the alternatives exclude each other. */
const atMostOne = (names: readonly string[]): Schema[] =>
  names.flatMap((one, index) => names.slice(index + 1).map((other) => ({ not: { required: [one, other] } })));

/** Rules for single fields that an editor can apply. */
const EXTRAS: Readonly<Record<string, readonly Schema[]>> = {
  ModelConfig: [
    {
      if: { properties: { backend: false } },
      then: { properties: { platform: { enum: Object.keys(PLATFORMS) } } },
    },
  ],
};

function fieldSchema(field: protobuf.Field, messages: Map<string, Schema>): Schema {
  const value = valueSchema(field, messages);
  if (field instanceof protobuf.MapField) {
    const keys = field.keyType === 'string' ? {} : { propertyNames: { pattern: '^\\d{1,20}$' } };
    return { type: 'object', ...keys, additionalProperties: value };
  }
  return field.repeated ? { type: 'array', items: value } : value;
}

function valueSchema({ resolvedType, type }: protobuf.FieldBase, messages: Map<string, Schema>): Schema {
  if (resolvedType instanceof protobuf.Type) {
    addMessage(resolvedType, messages);
    return { $ref: reference(resolvedType) };
  }
  if (resolvedType instanceof protobuf.Enum) return { enum: Object.keys(resolvedType.values) };
  const bounds = INTEGERS[type];
  // JSON numbers are doubles, so the schema accepts 2^64 for uint64; `configFromYaml` refuses it.
  if (bounds !== undefined) return { type: 'integer', minimum: Number(bounds[0]), maximum: Number(bounds[1]) };
  if (type === 'string') return { type: 'string' };
  return { type: type === 'bool' ? 'boolean' : 'number' };
}
