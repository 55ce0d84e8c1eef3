import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import type protobuf from 'protobufjs/light';
import { DESCRIPTIONS } from '../../../src/model/descriptions';
import { configFromYaml } from '../../../src/model/from-yaml';
import { modelConfigType } from '../../../src/model/model-config';
import { ProblemList } from '../../../src/core/problems';
import { modelSchema } from '../../../src/model/schema';
import { parseYaml } from '../../../src/model/yaml-text';
import { MALFORMED } from '../../support/malformed';
import { randoms } from '../../support/random-choice';
import { PARTS, randomEnsemble, randomModel, randomWarmup } from '../../support/random-models';
import { MODELS, MODEL_REPO, modelYaml } from '../../support/model-files';
import { SOAK_SEED } from '../../support/soak';

const FILE = join(MODEL_REPO, 'model.schema.json');
const FIRST_LINE = '# yaml-language-server: $schema=../model.schema.json\n';

const ajv = new Ajv({ allErrors: true });
const isValid = ajv.compile(JSON.parse(readFileSync(FILE, 'utf8')) as object);

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

// UPDATE_DOCS=1 updates it; then run prettier.
test('the schema file is generated from the definition', () => {
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(FILE, `${JSON.stringify(modelSchema(), null, 2)}\n`);
  expect(JSON.parse(readFileSync(FILE, 'utf8'))).toEqual(modelSchema());
});

test('each field has a description, and each description a field', () => {
  const described = Object.entries(DESCRIPTIONS).map(([name, fields]) => [name, Object.keys(fields).sort()]);
  const defined = Object.entries(definition(modelConfigType)).filter(([, fields]) => fields.length > 0);
  expect(Object.fromEntries(described)).toEqual(
    Object.fromEntries(defined.map(([name, fields]) => [name, [...fields].sort()])),
  );
  for (const text of Object.values(DESCRIPTIONS).flatMap((fields) => Object.values(fields))) {
    expect(text).toMatch(/^\S.*[^.]\.$/);
  }
});

test.each(MODELS)('%s names the schema in its first line, and satisfies it', (name) => {
  const text = readFileSync(join(MODEL_REPO, name, 'model.yaml'), 'utf8');
  expect(text.startsWith(FIRST_LINE)).toBe(true);
  expect(refusals(text)).toEqual([]);
  // Nothing of the line is published: what is read is the same without it.
  const read = (source: string): unknown => configFromYaml(source, new ProblemList('f'));
  expect(read(text)).toEqual(read(text.slice(FIRST_LINE.length)));
});

describe('mutants of a valid model', () => {
  const MUTANTS: [name: string, fields: Record<string, unknown>, refusal: string][] = [
    ['a misspelt field', { max_batchsize: 8 }, ' must NOT have additional properties'],
    ['a misspelt field further in', { input: [{ nmae: 'x' }] }, '/input/0 must NOT have additional properties'],
    ['a text for a number', { max_batch_size: '8' }, '/max_batch_size must be integer'],
    ['a number for a text', { platform: 1 }, '/platform must be string'],
    ['a fraction', { max_batch_size: 1.5 }, '/max_batch_size must be integer'],
    ['a number out of range', { max_batch_size: 2 ** 31 }, '/max_batch_size must be <= 2147483647'],
    ['a negative number', { model_warmup: [{ count: -1 }] }, '/model_warmup/0/count must be >= 0'],
    ['a mapping for a list', { input: {} }, '/input must be array'],
    ['a type as requests spell it', { input: [{ data_type: 'FP32' }] }, '/input/0/data_type must be equal to'],
    ['a platform that is none', { platform: 'pytorch' }, '/platform must be equal to one of the allowed values'],
    ['alternatives together', { dynamic_batching: {}, sequence_batching: {} }, ' must NOT be valid'],
    ['no value', { dynamic_batching: null }, '/dynamic_batching must be object'],
    ['a level that is no number', { dynamic_batching: { priority_queue_policy: { high: {} } } }, 'must match pattern'],
  ];
  test('the model itself is accepted', () => expect(refusals(modelYaml())).toEqual([]));
  test.each(MUTANTS)('%s is refused', (_, fields, refusal) => {
    expect(refusals(modelYaml(fields))).toContainEqual(expect.stringContaining(refusal));
  });
});

/** Few aliases that stand for more values than a validator could look at. */
const ENDLESS = ['model.yaml: aliases of aliases', 'model.yaml: an alias in itself'];

describe('the schema and our reader agree', () => {
  const texts = MALFORMED.flatMap(({ name, files }) =>
    Object.entries(files)
      .filter(([path, content]) => path.endsWith('/model.yaml') && typeof content === 'string')
      .map(([, content]): [name: string, text: string] => [name, content as string]),
  );

  test('on texts that are no configuration', () => {
    const isYaml = (text: string): boolean => {
      const list = new ProblemList('f');
      parseYaml(text, list);
      return list.problems.length === 0;
    };
    const looked = texts.filter(([name, text]) => !ENDLESS.includes(name) && isYaml(text) && problems(text).length > 0);
    expect(looked.length).toBeGreaterThan(80);
    const missed = looked.filter(([, text]) => refusals(text).length === 0).map(([name]) => name);
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
