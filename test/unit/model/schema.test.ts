import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import type protobuf from 'protobufjs/light';
import { configFromYaml } from '../../../src/model/from-yaml';
import { modelConfigType } from '../../../src/model/model-config';
import { ProblemList } from '../../../src/core/problems';
import { parseYaml } from '../../../src/model/yaml-text';
import { MALFORMED, WRONG_FIELDS } from '../../support/malformed';
import { PARTS, randomEnsemble, randomModel, randomWarmup, randoms } from '../../support/random-models';
import { MODELS, MODEL_REPO, modelYaml } from '../../support/model-files';
import { SOAK_SEED } from '../../support/soak';

const FILE = join(MODEL_REPO, 'model.schema.json');
const FIRST_LINE = '# yaml-language-server: $schema=../model.schema.json\n';

const SCHEMA = JSON.parse(readFileSync(FILE, 'utf8')) as {
  definitions: Record<string, { properties: Record<string, { description?: string }> }>;
};
const isValid = new Ajv({ allErrors: true }).compile(SCHEMA);

/** What is wrong with a text by the schema, as `/path message`. */
function refusals(text: string): string[] {
  isValid(plain(parseYaml(text, new ProblemList('f'))));
  return (isValid.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/** What is wrong with it by our reader. */
function problems(text: string): string[] {
  const list = new ProblemList('f');
  configFromYaml(text, list);
  return list.problems.map(({ field, message }) => `${field}: ${message}`);
}

/** YAML's values as JSON has them. */
function plain(value: unknown): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, item]) => [String(key), plain(item)]));
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === 'bigint' ? Number(value) : value;
}

/** Message -> names of its fields, of all that a configuration is made of. */
function definition(type: protobuf.Type, found: Record<string, string[]> = {}): Record<string, string[]> {
  const name = type.fullName.replace('.inference.', '');
  if (found[name] !== undefined) return found;
  found[name] = Object.keys(type.fields);
  for (const { resolvedType } of type.fieldsArray) {
    if (resolvedType !== null && 'fields' in resolvedType) definition(resolvedType, found);
  }
  return found;
}

// A field that Triton adds is written into model-repo/model.schema.json by hand.
test('the schema describes each field of the definition, and no other', () => {
  const described = Object.entries(SCHEMA.definitions).map(([name, { properties }]) => {
    for (const { description } of Object.values(properties)) expect(description).toMatch(/^\S.*[^.]\.$/);
    return [name, Object.keys(properties)];
  });
  expect(Object.fromEntries(described)).toEqual(definition(modelConfigType));
});

test.each(MODELS)('%s names the schema in its first line, and satisfies it', (name) => {
  const text = readFileSync(join(MODEL_REPO, name, 'model.yaml'), 'utf8');
  expect(text.startsWith(FIRST_LINE)).toBe(true);
  expect(refusals(text)).toEqual([]);
  // Nothing of the line is published: what is read is the same without it.
  const read = (source: string): unknown => configFromYaml(source, new ProblemList('f'));
  expect(read(text)).toEqual(read(text.slice(FIRST_LINE.length)));
});

test('the schema refuses a platform that Triton does not have', () => {
  expect(refusals(modelYaml())).toEqual([]);
  expect(refusals(modelYaml({ platform: 'pytorch' }))).toContainEqual(
    expect.stringContaining('/platform must be equal to one of the allowed values'),
  );
});

/** Few aliases that stand for more values than a validator could look at. */
const ENDLESS = ['model.yaml: aliases of aliases', 'model.yaml: an alias in itself'];

describe('the schema and our reader agree', () => {
  const texts = [
    ...WRONG_FIELDS.filter(({ language }) => language === 'model.yaml'),
    ...MALFORMED.flatMap(({ name, files }) =>
      Object.entries(files).flatMap(([path, text]) =>
        path.endsWith('/model.yaml') && typeof text === 'string' ? [{ name, text }] : [],
      ),
    ),
  ];

  test('on texts that are no configuration', () => {
    const isYaml = (text: string): boolean => {
      const list = new ProblemList('f');
      parseYaml(text, list);
      return list.problems.length === 0;
    };
    const looked = texts.filter(
      ({ name, text }) => !ENDLESS.includes(name) && isYaml(text) && problems(text).length > 0,
    );
    expect(looked.length).toBeGreaterThan(80);
    const missed = looked.filter(({ text }) => refusals(text).length === 0).map(({ name }) => name);
    // No schema looks into the characters of a text.
    expect(missed).toEqual(['model.yaml: half of a surrogate pair']);
  });

  test('on texts that the reader accepts', () => {
    const made = randoms(500, SOAK_SEED).flatMap((random, index) => [
      randomModel(`m${index}`, random),
      randomEnsemble(`e${index}`, PARTS, random),
      randomWarmup(`w${index}`, random),
    ]);
    const sound = made.map(({ config }) => JSON.stringify(config)).filter((text) => problems(text).length === 0);
    expect(sound.length).toBeGreaterThan(1000);
    for (const text of sound) expect([SOAK_SEED, text, refusals(text)]).toEqual([SOAK_SEED, text, []]);
  });
});
