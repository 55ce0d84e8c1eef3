import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import protobuf from 'protobufjs/light';
import { configFromYaml } from '../../../src/model/from-yaml';
import { modelConfigType } from '../../../src/model/model-config';
import { ProblemList } from '../../../src/core/problems';
import { parseYaml } from '../../../src/model/yaml-text';
import { MODELS, MODEL_REPO, modelYaml } from '../../support/model-files';

const FIRST_LINE = '# yaml-language-server: $schema=../model.schema.json\n';

interface Message {
  properties: Record<string, object>;
  allOf?: object[];
}

const SCHEMA = JSON.parse(readFileSync(join(MODEL_REPO, 'model.schema.json'), 'utf8')) as {
  definitions: Record<string, Message>;
};

const SCALARS: Record<string, object> = {
  string: { type: 'string' },
  bool: { type: 'boolean' },
  float: { type: 'number' },
  double: { type: 'number' },
  int32: { type: 'integer', minimum: -(2 ** 31), maximum: 2 ** 31 - 1 },
  uint32: { type: 'integer', minimum: 0, maximum: 2 ** 32 - 1 },
  int64: { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
  uint64: { type: 'integer', minimum: 0, maximum: 2 ** 64 },
};

const nameOf = (type: protobuf.Type): string => type.fullName.replace('.inference.', '');

function valueSchema({ type, resolvedType }: protobuf.FieldBase): object | undefined {
  if (resolvedType instanceof protobuf.Type) return { $ref: `#/definitions/${nameOf(resolvedType)}` };
  return resolvedType instanceof protobuf.Enum ? { enum: Object.keys(resolvedType.values) } : SCALARS[type];
}

function fieldSchema(field: protobuf.Field): object | undefined {
  const value = valueSchema(field.resolve());
  if (field instanceof protobuf.MapField) {
    const keys = field.keyType === 'string' ? {} : { propertyNames: { pattern: '^\\d{1,20}$' } };
    return { type: 'object', ...keys, additionalProperties: value };
  }
  if (field.repeated) return { type: 'array', items: value };
  // A description beside $ref would be ignored.
  return field.resolvedType instanceof protobuf.Type ? { allOf: [value] } : value;
}

/** Adds the schemas of a message and of all messages that it reaches. */
function addSchemas(type: protobuf.Type, schemas: Record<string, Message> = {}): Record<string, Message> {
  if (schemas[nameOf(type)] !== undefined) return schemas;
  const properties = type.fieldsArray.map((field) => [field.name, fieldSchema(field)] as const);
  // At most one member of each oneof.
  const pairs = type.oneofsArray.flatMap(({ oneof }) =>
    oneof.flatMap((one, index) => oneof.slice(index + 1).map((other) => ({ not: { required: [one, other] } }))),
  );
  schemas[nameOf(type)] = {
    ...{
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(properties) as Message['properties'],
    },
    ...(pairs.length > 0 && { allOf: pairs }),
  };
  for (const { resolvedType } of type.fieldsArray)
    if (resolvedType instanceof protobuf.Type) addSchemas(resolvedType, schemas);
  return schemas;
}

// A field that Triton adds is written into model-repo/model.schema.json by hand.
test('the schema describes each field of the definition with its type, and no other', () => {
  const found = structuredClone(SCHEMA.definitions);
  for (const { properties } of Object.values(found))
    for (const [name, { description, ...schema }] of Object.entries<{ description?: string }>(properties)) {
      expect(description).toMatch(/^\S.*[^.]\.$/);
      properties[name] = schema;
    }
  // The last restriction of ModelConfig is the next test.
  found['ModelConfig']?.allOf?.pop();
  expect(found).toEqual(addSchemas(modelConfigType));
});

const isValid = new Ajv({ allErrors: true }).compile(SCHEMA);

/** YAML's values as JSON has them. */
function plain(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, item]) => [String(key), plain(item)]));
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === 'bigint' ? Number(value) : value;
}

/** What is wrong with a text by the schema, as `/path message`. */
function refusals(text: string): string[] {
  isValid(plain(parseYaml(text, new ProblemList('f'))));
  return (isValid.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

test('the schema refuses a platform that Triton does not have', () => {
  expect(refusals(modelYaml())).toEqual([]);
  expect(refusals(modelYaml({ platform: 'pytorch' }))).toContainEqual(
    expect.stringContaining('/platform must be equal to one of the allowed values'),
  );
});

test.each(MODELS)('%s names the schema in its first line, and satisfies it', (name) => {
  const text = readFileSync(join(MODEL_REPO, name, 'model.yaml'), 'utf8');
  expect(text.startsWith(FIRST_LINE)).toBe(true);
  expect(refusals(text)).toEqual([]);
  // Nothing of the line is published: what is read is the same without it.
  const read = (source: string): unknown => configFromYaml(source, new ProblemList('f'));
  expect(read(text)).toEqual(read(text.slice(FIRST_LINE.length)));
});
