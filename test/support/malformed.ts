import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import protobuf from 'protobufjs/light';
import { configText, type ModelConfig } from '../../scripts/lib/model';
import { modelConfigType } from '../../scripts/lib/model/model-config';
import { torchScript, zip } from '../unit/model/helpers';

/** What lies at a path: its content, or something that is no ordinary file. */
export type Malformed = string | Buffer | { link: string } | { mode: number; content: string | Buffer } | 'pipe';

/** A model repository with one thing wrong in it. */
export interface MalformedCase {
  name: string;
  /** Path in the repository -> what is there. A path that ends in `/` is an empty folder. */
  files: Record<string, Malformed>;
  /** What is said, as it is printed, with paths from the repository on. */
  problem: RegExp;
  /** How many problems there are; 1 where nothing else follows from the one that is meant. */
  problems?: number;
  /** Root may read everything. */
  notForRoot?: true;
}

/** Makes the repository of a case in `directory`, which is there. */
export function writeMalformed(directory: string, files: MalformedCase['files']): void {
  for (const [path, content] of Object.entries(files)) {
    const at = join(directory, path);
    mkdirSync(path.endsWith('/') ? at : dirname(at), { recursive: true });
    if (path.endsWith('/')) continue;
    if (content === PIPE) execFileSync('mkfifo', [at]);
    else if (typeof content === 'string' || Buffer.isBuffer(content)) writeFileSync(at, content);
    else if (typeof content === 'object' && 'link' in content) symlinkSync(content.link, at);
    else if (typeof content === 'object') {
      writeFileSync(at, content.content);
      chmodSync(at, content.mode);
    }
  }
}

/** No text of a file: a named pipe. */
const PIPE = 'pipe';

type Fields = Record<string, unknown>;

const ARTIFACT = { 'm/1/model.pt': torchScript() };
const input = (fields: Fields = {}): Fields => ({ name: 'input__0', data_type: 'TYPE_FP32', dims: [3], ...fields });
const output = (fields: Fields = {}): Fields => ({ name: 'output__0', data_type: 'TYPE_FP32', dims: [4], ...fields });

/** A sound TorchScript model with other fields in place of its own; undefined takes one out. */
function sound(fields: Fields = {}): Fields {
  const config: Fields = {
    platform: 'pytorch_libtorch',
    max_batch_size: 8,
    input: [input()],
    output: [output()],
    ...fields,
  };
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
/** A problem that begins with `text`, as it is. */
const begins = (text: string): RegExp => new RegExp(`^${escaped(text)}`);

// --- Every field of Triton's definition, with a value of a wrong kind -------------------------------------------------

const WRONG_KINDS: Record<string, [what: string, value: unknown, says: string][]> = {
  string: [
    ['a number', 5, 'must be a text, got 5'],
    ['a list', ['a'], 'must be a text, got a list'],
    ['a mapping', { a: 1 }, 'must be a text, got a mapping'],
    ['true', true, 'must be a text, got true'],
  ],
  integer: [
    ['a text', 'many', 'must be a whole number, got "many"'],
    ['a fraction', 1.5, 'must be a whole number, got 1.5'],
    ['a list', [1], 'must be a whole number, got a list'],
    ['a mapping', { a: 1 }, 'must be a whole number, got a mapping'],
    ['far too much', 1e25, 'is out of range, got 1e+25; allowed: '],
  ],
  float: [
    ['a text', 'half', 'must be a number, got "half"'],
    ['a list', [1], 'must be a number, got a list'],
    ['true', true, 'must be a number, got true'],
  ],
  bool: [
    ['a text', 'yes', 'must be true or false, got "yes"'],
    ['a number', 1, 'must be true or false, got 1'],
    ['a list', [true], 'must be true or false, got a list'],
  ],
  enum: [
    ['a word', 'NO_SUCH_THING', 'is not one of the values of '],
    ['a number', 1, 'is not one of the values of '],
    ['a list', ['A'], 'is not one of the values of '],
  ],
  message: [
    ['a text', 'x', 'must be a mapping, got "x"'],
    ['a number', 7, 'must be a mapping, got 7'],
    ['a list', [1], 'must be a mapping, got a list'],
  ],
  list: [
    ['a text', 'x', 'must be a list, got "x"'],
    ['a mapping', { a: 1 }, 'must be a list, got a mapping'],
  ],
  map: [
    ['a text', 'x', 'must be a mapping, got "x"'],
    ['a list', ['x'], 'must be a mapping, got a list'],
  ],
};

function kindOf(field: protobuf.Field): string {
  if (field.resolvedType instanceof protobuf.Type) return 'message';
  if (field.resolvedType instanceof protobuf.Enum) return 'enum';
  return (
    ['string', 'bool', 'float'].find((type) => type === field.type) ?? (field.type === 'double' ? 'float' : 'integer')
  );
}

/** A field somewhere in a configuration: how messages call it, and a configuration that has `value` there. */
interface Place {
  path: string;
  field: protobuf.Field;
  type: protobuf.Type;
  put: (value: unknown) => Fields;
}

/** Every field of every message, each at the first place where it is met. */
function everyPlace(): Place[] {
  const places: Place[] = [];
  const seen = new Set<protobuf.Type>();
  const walk = (type: protobuf.Type, path: string, put: (value: Fields) => Fields): void => {
    if (seen.has(type)) return;
    seen.add(type);
    for (const field of type.fieldsArray.map((one) => one.resolve())) {
      const at = path === '' ? field.name : `${path}.${field.name}`;
      const here = (value: unknown): Fields => put({ [field.name]: value });
      places.push({ path: at, field, type, put: here });
      if (!(field.resolvedType instanceof protobuf.Type)) continue;
      const key = field instanceof protobuf.MapField && field.keyType !== 'string' ? '1' : 'k';
      if (field.map)
        walk(field.resolvedType, key === 'k' ? `${at}.k` : `${at}["1"]`, (value) => here({ [key]: value }));
      else if (field.repeated) walk(field.resolvedType, `${at}[0]`, (value) => here([value]));
      else walk(field.resolvedType, at, (value) => here(value));
    }
  };
  walk(modelConfigType, '', (value) => value);
  return places;
}

const yamlOf = (fields: Fields): Record<string, Malformed> => ({ ...ARTIFACT, 'm/model.yaml': JSON.stringify(fields) });

/** Each field with one wrong kind of value, in turn, so that every field and every kind of mistake is met. */
function wrongKinds(): MalformedCase[] {
  let turn = 0;
  return everyPlace().flatMap(({ path, field, put }) => {
    const outer = field.map ? 'map' : field.repeated ? 'list' : kindOf(field);
    const choices = WRONG_KINDS[outer] ?? [];
    const chosen = choices[turn++ % choices.length];
    if (chosen === undefined) return [];
    const [what, value, says] = chosen;
    const one: MalformedCase = {
      name: `model.yaml: ${path} is ${what}`,
      files: yamlOf(sound(put(value))),
      problem: begins(`m/model.yaml: ${path}: ${says}`),
    };
    if (outer !== 'list') return [one];
    const item = WRONG_KINDS[kindOf(field)]?.[0];
    if (item === undefined) return [one];
    return [
      one,
      {
        name: `model.yaml: ${path}[0] is ${item[0]}`,
        files: yamlOf(sound(put([item[1]]))),
        problem: begins(`m/model.yaml: ${path}[0]: ${item[2]}`),
      },
    ];
  });
}

/** A name that is no field, in every message; and a field without a value. */
function unknownFields(): MalformedCase[] {
  const first = new Map<protobuf.Type, Place>();
  for (const place of everyPlace()) if (!first.has(place.type)) first.set(place.type, place);
  return [...first.values()].flatMap(({ path, field, type, put }) => {
    const parent = path.slice(0, path.length - field.name.length);
    const unknown = { ...put(0) };
    const renamed = JSON.parse(
      JSON.stringify(sound(unknown)).replace(new RegExp(`"${field.name}":0`), '"no_such_field":0'),
    ) as Fields;
    return [
      {
        name: `model.yaml: no field ${parent}no_such_field`,
        files: yamlOf(path === field.name ? sound({ no_such_field: 0 }) : renamed),
        problem: begins(`m/model.yaml: ${parent}no_such_field: unknown field of ${type.name}; allowed: `),
      },
      {
        name: `model.yaml: ${path} has no value`,
        files: yamlOf(sound(put(null))),
        problem: begins(`m/model.yaml: ${path}: has no value`),
      },
    ];
  });
}

// --- Texts that are no YAML, or not what they look like ----------------------------------------------------------------

const SOUND_YAML = `platform: pytorch_libtorch
max_batch_size: 8
input: [{ name: input__0, data_type: TYPE_FP32, dims: [3] }]
output: [{ name: output__0, data_type: TYPE_FP32, dims: [4] }]
`;

const yaml = (name: string, text: string | Buffer, problem: string | RegExp, problems = 1): MalformedCase => ({
  name: `model.yaml: ${name}`,
  files: { ...ARTIFACT, 'm/model.yaml': text },
  problem: typeof problem === 'string' ? begins(`m/model.yaml: ${problem}`) : problem,
  problems,
});

const bomb = (): string => {
  const levels = Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(', ')}]`);
  return `a0: &a0 x\n${levels.join('\n')}\n`;
};

const NO_YAML = 'not valid YAML: line ';
const NO_MAPPING = "must be a mapping of Triton's ModelConfig fields, got ";

const YAML_TRAPS: MalformedCase[] = [
  yaml('empty', '', `${NO_MAPPING}nothing`),
  yaml('comments alone', '# nothing yet\n', `${NO_MAPPING}nothing`),
  yaml('blanks alone', ' \n\n', `${NO_MAPPING}nothing`),
  yaml('a byte order mark alone', '\uFEFF', `${NO_MAPPING}nothing`),
  yaml('a word', 'pytorch\n', `${NO_MAPPING}"pytorch"`),
  yaml('a number', '42\n', `${NO_MAPPING}42`),
  yaml('a list', '- platform\n- input\n', `${NO_MAPPING}a list`),
  yaml('null', '~\n', `${NO_MAPPING}nothing`),
  yaml(
    'a key twice',
    `${SOUND_YAML}max_batch_size: 4\n`,
    /^m\/model\.yaml: not valid YAML: line 5, column \d+: duplicated mapping key/,
  ),
  yaml(
    'a key twice in a part',
    SOUND_YAML.replace('dims: [3]', 'dims: [3], dims: [4]'),
    /^m\/model\.yaml: not valid YAML: line 3, column \d+: duplicated/,
  ),
  yaml('a tab as indentation', 'platform: pytorch_libtorch\ninput:\n\t- name: x\n', NO_YAML),
  yaml('an open bracket', `${SOUND_YAML}parameters: [\n`, NO_YAML),
  yaml('an open brace', `${SOUND_YAML}parameters: { a: 1\n`, NO_YAML),
  yaml('an open quote', `${SOUND_YAML}name: "m\n`, NO_YAML),
  yaml('two documents', `${SOUND_YAML}---\n${SOUND_YAML}`, 'not valid YAML: '),
  yaml('an anchor that is not there', SOUND_YAML.replace('TYPE_FP32', '*type'), NO_YAML),
  yaml('aliases of aliases', bomb(), /^m\/model\.yaml: a0: unknown field of ModelConfig/, 10),
  yaml(
    'an alias in itself',
    'platform: pytorch_libtorch\ninput: &a\n  - *a\n',
    /^m\/model\.yaml: (not valid YAML|input\[0\]: must be a mapping, got a list)/,
  ),
  yaml('a tag of Python', `${SOUND_YAML}name: !!python/object:os.system m\n`, NO_YAML),
  yaml('a tag of one’s own', `${SOUND_YAML}name: !model m\n`, NO_YAML),
  yaml('a control character', `${SOUND_YAML}name: "m\u0001"\n`, NO_YAML),
  yaml('a zero byte', `${SOUND_YAML}\0`, 'not valid YAML: '),
  yaml('bytes that are no UTF-8', Buffer.from([0x61, 0x3a, 0x20, 0xc3, 0x28]), 'is not text in UTF-8'),
  yaml('UTF-16', Buffer.from(`\uFEFF${SOUND_YAML}`, 'utf16le'), 'is not text in UTF-8'),
  yaml('UTF-16 without a mark', Buffer.from(SOUND_YAML, 'utf16le'), 'not valid YAML: '),
  yaml(
    'half of a surrogate pair',
    `${SOUND_YAML}name: "\\uD800"\n`,
    /^m\/model\.yaml: (not valid YAML|name: must be a text that UTF-8 can hold)/,
  ),
  yaml('2 MiB', `${SOUND_YAML}# ${'x'.repeat(2 ** 21)}\n`, 'is no configuration: it has '),
  yaml('a picture', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), 'is not text in UTF-8'),
  yaml('a zip archive', zip(['a']), /^m\/model\.yaml: (is not text in UTF-8|not valid YAML)/),
  yaml('a config.pbtxt', 'platform: "pytorch_libtorch"\ninput [ { name: "x" } ]\n', NO_YAML),
  yaml(
    'a thousand brackets',
    `${SOUND_YAML}parameters: ${'['.repeat(1000)}${']'.repeat(1000)}\n`,
    /^m\/model\.yaml: (not valid YAML|parameters: must be a mapping)/,
  ),
  yaml('a hundred thousand brackets', `parameters: ${'['.repeat(100_000)}`, 'not valid YAML: '),
  yaml('not a number', SOUND_YAML.replace('[3]', '[.nan]'), 'input[0].dims[0]: must be a whole number, got NaN'),
  yaml('infinity', SOUND_YAML.replace('8\n', '.inf\n'), 'max_batch_size: must be a whole number, got Infinity'),
  yaml(
    'a size of 64 bits and more',
    SOUND_YAML.replace('[3]', '[18446744073709551616]'),
    'input[0].dims[0]: is out of range, got 18446744073709551616',
  ),
  yaml(
    'a size that doubles cannot tell',
    SOUND_YAML.replace('[3]', '[9007199254740993]'),
    'input[0].dims[0]: is out of range, got 9007199254740993',
  ),
  yaml(
    'a batch of 32 bits',
    SOUND_YAML.replace('8\n', '2147483648\n'),
    'max_batch_size: is out of range, got 2147483648',
  ),
  yaml('a number of a thousand digits', SOUND_YAML.replace('8\n', `${'9'.repeat(1000)}\n`), 'max_batch_size: '),
  yaml(
    'a number with an underscore',
    SOUND_YAML.replace('8\n', '1_000\n'),
    'max_batch_size: must be a whole number, got "1_000"',
  ),
  yaml('a key that is a number', `${SOUND_YAML}1: x\n`, 'field names are words, got 1'),
  yaml('a key that is true', `${SOUND_YAML}true: x\n`, 'field names are words, got true'),
  yaml('a key that is a list', `${SOUND_YAML}? [a]\n: x\n`, 'field names are words, got a list'),
  yaml('a key that is nothing', `${SOUND_YAML}? ~\n: x\n`, 'field names are words, got nothing'),
  yaml('a prototype', `${SOUND_YAML}__proto__: { max_batch_size: 1 }\n`, '__proto__: unknown field of ModelConfig'),
  yaml('a constructor', `${SOUND_YAML}constructor: 1\n`, 'constructor: unknown field of ModelConfig'),
  yaml(
    'capitals',
    SOUND_YAML.replace('max_batch_size', 'MAX_BATCH_SIZE'),
    /^m\/model\.yaml: MAX_BATCH_SIZE: unknown field of ModelConfig.*did you mean "max_batch_size"/s,
  ),
  yaml(
    'camel case',
    SOUND_YAML.replace('max_batch_size', 'maxBatchSize'),
    /^m\/model\.yaml: maxBatchSize: .*did you mean "max_batch_size"/s,
  ),
  yaml(
    'a type as PyTorch calls it',
    SOUND_YAML.replace('TYPE_FP32', 'float32'),
    /^m\/model\.yaml: input\[0\]\.data_type: .*TYPE_FP32 is meant/s,
  ),
  yaml(
    'a type as NumPy calls it',
    SOUND_YAML.replace('TYPE_FP32', 'np.int64'),
    /^m\/model\.yaml: input\[0\]\.data_type: .*TYPE_INT64 is meant/s,
  ),
  yaml(
    'two kinds of scheduling',
    `${SOUND_YAML}dynamic_batching: {}\nsequence_batching: {}\n`,
    'sequence_batching: cannot stand beside dynamic_batching',
  ),
  yaml(
    'two version policies',
    `${SOUND_YAML}version_policy: { all: {}, latest: { num_versions: 1 } }\n`,
    /^m\/model\.yaml: version_policy\.(all|latest): cannot stand beside/,
  ),
];

const pbtxt = (name: string, text: string | Buffer, problem: string | RegExp): MalformedCase => ({
  name: `config.pbtxt: ${name}`,
  files: { ...ARTIFACT, 'm/config.pbtxt': text },
  problem: typeof problem === 'string' ? begins(`m/config.pbtxt: ${problem}`) : problem,
});

const SOUND_TEXT = `platform: "pytorch_libtorch"
max_batch_size: 8
input { name: "input__0" data_type: TYPE_FP32 dims: 3 }
output { name: "output__0" data_type: TYPE_FP32 dims: 4 }
`;

const line = (number: number): string => `line ${number}: not a ModelConfig in protobuf text format: `;

const TEXT_TRAPS: MalformedCase[] = [
  pbtxt('YAML', SOUND_YAML, line(1)),
  pbtxt('JSON', '{ "platform": "pytorch_libtorch" }', line(1)),
  pbtxt('XML', '<config/>', line(1)),
  pbtxt('prose', 'This model classifies pictures.\n', line(1)),
  pbtxt('an open brace', `${SOUND_TEXT}parameters {\n`, /^m\/config\.pbtxt: line \d+: /),
  pbtxt('a brace too many', `${SOUND_TEXT}}\n`, line(5)),
  pbtxt('an open quote', `${SOUND_TEXT}name: "m\n`, line(5)),
  pbtxt('an open list', SOUND_TEXT.replace('dims: 3', 'dims: [3'), line(3)),
  pbtxt('a comma at the end of a list', SOUND_TEXT.replace('dims: 3', 'dims: [3,]'), line(3)),
  pbtxt('no colon', SOUND_TEXT.replace('max_batch_size: 8', 'max_batch_size 8'), line(2)),
  pbtxt('an equals sign', SOUND_TEXT.replace('max_batch_size: 8', 'max_batch_size = 8'), line(2)),
  pbtxt('a value twice', `${SOUND_TEXT}max_batch_size: 4\n`, line(5)),
  pbtxt('no value', `${SOUND_TEXT}max_batch_size:\n`, /^m\/config\.pbtxt: line \d+: /),
  pbtxt('a word for a text', SOUND_TEXT.replace('"pytorch_libtorch"', 'pytorch_libtorch'), line(1)),
  pbtxt('a text for a number', SOUND_TEXT.replace('8', '"8"'), line(2)),
  pbtxt('a fraction for a number', SOUND_TEXT.replace('8', '8.5'), line(2)),
  pbtxt('true for a number', SOUND_TEXT.replace('8', 'true'), line(2)),
  pbtxt('a number of 32 bits and more', SOUND_TEXT.replace('8', '2147483648'), line(2)),
  pbtxt('a negative number without sign', `${SOUND_TEXT}model_warmup { batch_size: -1 }\n`, line(5)),
  pbtxt('a text for an enum', SOUND_TEXT.replace('TYPE_FP32', '"TYPE_FP32"'), line(3)),
  pbtxt('no such enum', SOUND_TEXT.replace('TYPE_FP32', 'FP32'), line(3)),
  pbtxt(
    'no such enum number',
    SOUND_TEXT.replace('TYPE_FP32', '99'),
    /^m\/config\.pbtxt: input\[0\]\.data_type: is not one of the values of DataType, got 99/,
  ),
  pbtxt(
    'a size of 64 bits',
    SOUND_TEXT.replace('dims: 3', 'dims: 9223372036854775807'),
    'input[0].dims[0]: is out of range, got 9223372036854775807',
  ),
  pbtxt('a size of more than 64 bits', SOUND_TEXT.replace('dims: 3', 'dims: 92233720368547758070'), line(3)),
  pbtxt('a comment of another language', `// mine\n${SOUND_TEXT}`, line(1)),
  pbtxt('a control character', `${SOUND_TEXT}\u0001`, line(5)),
  pbtxt('a zero byte', `${SOUND_TEXT}\0`, line(5)),
  pbtxt('bytes that are no UTF-8', Buffer.from([0x61, 0x3a, 0xff]), 'is not text in UTF-8'),
  pbtxt('UTF-16', Buffer.from(`\uFEFF${SOUND_TEXT}`, 'utf16le'), 'is not text in UTF-8'),
  pbtxt('2 MiB', `${SOUND_TEXT}# ${'x'.repeat(2 ** 21)}\n`, 'is no configuration: it has '),
  pbtxt('binary protobuf', Buffer.from([0x0a, 0x01, 0x6d, 0x12, 0x10, 0x70]), line(1)),
  pbtxt('two kinds of scheduling', `${SOUND_TEXT}dynamic_batching {}\nsequence_batching {}\n`, line(6)),
  pbtxt('two version policies', `${SOUND_TEXT}version_policy { all {} latest { num_versions: 1 } }\n`, line(5)),
  pbtxt('an extension', `${SOUND_TEXT}[my.extension]: 1\n`, line(5)),
  pbtxt(
    'braces a hundred thousand deep',
    `parameters ${'{ value '.repeat(100_000)}`,
    /^m\/config\.pbtxt: (line \d+: )?not a ModelConfig/,
  ),
  pbtxt(
    'messages that hold each other',
    `optimization ${'{ cuda '.repeat(10_000)}`,
    /^m\/config\.pbtxt: (line \d+: )?not a ModelConfig/,
  ),
  pbtxt('a text with half an escape', `${SOUND_TEXT}name: "m\\"\n`, line(5)),
  pbtxt(
    'an unknown field',
    SOUND_TEXT.replace('max_batch_size', 'max_batchsize'),
    /^m\/config\.pbtxt: line 2: .*did you mean "max_batch_size"/s,
  ),
];

/** A name that is no field, in every message, as text. */
function unknownTextFields(): MalformedCase[] {
  const first = new Map<protobuf.Type, Place>();
  for (const place of everyPlace()) if (!first.has(place.type)) first.set(place.type, place);
  const textOf = (type: protobuf.Type, value: Fields): string =>
    Object.entries(value)
      .map(([name, item]) => {
        const field = type.fields[name]?.resolve();
        const inner = field?.resolvedType;
        if (!(inner instanceof protobuf.Type)) return 'no_such_field: 1';
        const one = Array.isArray(item) ? (item[0] as unknown) : item;
        if (!field?.map)
          return `${name} { ${typeof one === 'object' ? textOf(inner, one as Fields) : 'no_such_field: 1'} }`;
        return `${name} { value { ${textOf(inner, Object.values(one as Fields)[0] as Fields)} } }`;
      })
      .join(' ');
  return [...first.values()].map(({ path, field, type, put }) => ({
    name: `config.pbtxt: no field ${path.slice(0, path.length - field.name.length)}no_such_field`,
    files: {
      ...ARTIFACT,
      'm/config.pbtxt': `${SOUND_TEXT}${textOf(modelConfigType, put(field.resolvedType instanceof protobuf.Type ? 0 : 0)).replace(new RegExp(`\\b${field.name} \\{ no_such_field: 1 \\}`), 'no_such_field: 1')}\n`,
    },
    problem: new RegExp(`^m/config\\.pbtxt: line 5: .*${type.name}.*unknown field 'no_such_field'`, 's'),
  }));
}

// --- Rules: what Triton refuses of a configuration that can be read --------------------------------------------------

const warmup = (fields: Fields = {}, tensor: Fields = {}): Fields => ({
  model_warmup: [
    {
      name: 'w',
      batch_size: 1,
      inputs: { input__0: { data_type: 'TYPE_FP32', dims: [3], zero_data: true, ...tensor } },
      ...fields,
    },
  ],
});
const sequence = (fields: Fields): Fields => ({ sequence_batching: { direct: {}, ...fields } });
const control = (...controls: Fields[]): Fields => sequence({ control_input: [{ name: 'c__1', control: controls }] });
const start = { kind: 'CONTROL_SEQUENCE_START', int32_false_true: [0, 1] };
const state = (fields: Fields = {}, initial: Fields = {}): Fields =>
  sequence({
    state: [
      {
        ...{ input_name: 's__1', output_name: 't__1', data_type: 'TYPE_FP32', dims: [2] },
        initial_state: [{ name: 'z', data_type: 'TYPE_FP32', dims: [2], zero_data: true, ...initial }],
        ...fields,
      },
    ],
  });

/** Fields in place of the sound ones, the field that is named, and what is said of it. */
const RULES: [name: string, fields: Fields, field: string, says: string][] = [
  ['another name', { name: 'n' }, 'name', 'must be the name of the folder, got "n"'],
  ['an unknown platform', { platform: 'caffe' }, 'platform', 'is not a platform of Triton\'s, got "caffe"'],
  ['a backend as platform', { platform: 'pytorch' }, 'platform', "is not a platform of Triton's"],
  ['a misspelt platform', { platform: 'onnxruntime_onxx' }, 'platform', "is not a platform of Triton's"],
  ['an empty platform', { platform: '', backend: '', default_model_filename: 'x' }, 'platform', 'is missing'],
  [
    'a backend of another platform',
    { backend: 'onnxruntime' },
    'backend',
    'does not serve the platform pytorch_libtorch, got "onnxruntime"',
  ],
  [
    'a file above',
    { default_model_filename: '../model.pt' },
    'default_model_filename',
    'must name a file in the version folder',
  ],
  [
    'a file elsewhere',
    { default_model_filename: '/etc/passwd' },
    'default_model_filename',
    'must name a file in the version folder',
  ],
  [
    'a file above for one GPU',
    { cc_model_filenames: { '8.0': '../x' } },
    'cc_model_filenames["8.0"]',
    'must name a file in the version folder',
  ],
  [
    'steps of no ensemble',
    {
      ensemble_scheduling: {
        step: [
          {
            model_name: 'm',
            model_version: -1,
            input_map: { input__0: 'input__0' },
            output_map: { output__0: 'output__0' },
          },
        ],
      },
    },
    'ensemble_scheduling',
    'is for platform ensemble alone',
  ],
  ['no agents', { model_repository_agents: {} }, 'model_repository_agents', 'names no agent'],
  [
    'an agent without a name',
    { model_repository_agents: { agents: [{}] } },
    'model_repository_agents.agents[0].name',
    'is missing',
  ],
  ['no inputs', { input: undefined }, 'input', 'at least one is needed'],
  ['no outputs', { output: undefined }, 'output', 'at least one is needed'],
  ['an input without a name', { input: [input({ name: undefined })] }, 'input[0].name', 'is missing'],
  ['an output with an empty name', { output: [output({ name: '' })] }, 'output[0].name', 'is missing'],
  [
    'a name twice',
    { backend: 'python', platform: undefined, input: [input(), input()] },
    'input[1].name',
    'is the name of input[0] too',
  ],
  [
    'an output name twice',
    { backend: 'python', platform: undefined, output: [output(), output()] },
    'output[1].name',
    'is the name of output[0] too',
  ],
  ['no data type', { input: [input({ data_type: undefined })] }, 'input[0].data_type', 'is missing'],
  [
    'the type of nothing',
    { output: [output({ data_type: 'TYPE_INVALID' })] },
    'output[0].data_type',
    'stands for no type at all',
  ],
  ['no dims', { input: [input({ dims: undefined })] }, 'input[0].dims', 'is missing'],
  ['a size of 0', { input: [input({ dims: [3, 0] })] }, 'input[0].dims[1]', 'is not a size, got 0'],
  ['a size below -1', { output: [output({ dims: [-2] })] }, 'output[0].dims[0]', 'is not a size, got -2'],
  [
    'a reshape to fewer',
    { input: [input({ dims: [2, 3], reshape: { shape: [5] } })] },
    'input[0].reshape.shape',
    'holds another number of elements than dims',
  ],
  [
    'a reshape across any size',
    { input: [input({ dims: [2, -1, 3], reshape: { shape: [3, -1, 2] } })] },
    'input[0].reshape.shape',
    'holds another number',
  ],
  [
    'a reshape that loses any size',
    { output: [output({ dims: [-1, 2], reshape: { shape: [2] } })] },
    'output[0].reshape.shape',
    'holds another number',
  ],
  [
    'a reshape to a size of 0',
    { input: [input({ dims: [1], reshape: { shape: [0] } })] },
    'input[0].reshape.shape[0]',
    'is not a size, got 0',
  ],
  [
    'a reshape to nothing',
    { max_batch_size: 0, input: [input({ dims: [1], reshape: {} })] },
    'input[0].reshape.shape',
    'is empty, which needs a batch axis',
  ],
  [
    'an image of two axes',
    { input: [input({ dims: [3, 4], format: 'FORMAT_NCHW' })] },
    'input[0].dims',
    'FORMAT_NCHW needs 3 of them',
  ],
  [
    'an image of four axes',
    { input: [input({ dims: [1, 3, 4, 4], format: 'FORMAT_NHWC' })] },
    'input[0].dims',
    'FORMAT_NHWC needs 3 of them',
  ],
  [
    'a shape tensor',
    { input: [input({ is_shape_tensor: true })] },
    'input[0].is_shape_tensor',
    'is for platform tensorrt_plan alone',
  ],
  [
    'a format of TensorRT',
    { output: [output({ is_non_linear_format_io: true })] },
    'output[0].is_non_linear_format_io',
    'is for platform tensorrt_plan alone',
  ],
  [
    'a type that libtorch has not',
    { input: [input({ data_type: 'TYPE_UINT16' })] },
    'input[0].data_type',
    "is not a type of Triton's libtorch backend",
  ],
  [
    'texts in two axes',
    { input: [input({ data_type: 'TYPE_STRING' })] },
    'input[0].dims',
    'a text input of libtorch has one axis in all',
  ],
  ['a position that is left out', { input: [input({ name: 'input__1' })] }, 'input[0].name', 'leaves positions out'],
  [
    'a position twice',
    { output: [output(), output({ name: 'mask__0' })] },
    'output[1].name',
    'has the same position as output[0]',
  ],
  ['a negative batch size', { max_batch_size: -1 }, 'max_batch_size', 'must not be negative, got -1'],
  [
    'dynamic batching without a batch axis',
    { max_batch_size: 0, dynamic_batching: {} },
    'dynamic_batching',
    'has no effect: max_batch_size is 0',
  ],
  [
    'a preferred size of 0',
    { dynamic_batching: { preferred_batch_size: [0] } },
    'dynamic_batching.preferred_batch_size[0]',
    'does not fit max_batch_size 8, got 0',
  ],
  [
    'a preferred size above the largest',
    { dynamic_batching: { preferred_batch_size: [4, 9] } },
    'dynamic_batching.preferred_batch_size[1]',
    'does not fit max_batch_size 8, got 9',
  ],
  [
    'a negative preferred size',
    { dynamic_batching: { preferred_batch_size: [-4] } },
    'dynamic_batching.preferred_batch_size[0]',
    'does not fit',
  ],
  [
    'no default priority',
    { dynamic_batching: { priority_levels: 2 } },
    'dynamic_batching.default_priority_level',
    'is not one of the priority_levels, got 0',
  ],
  [
    'a default priority above all',
    { dynamic_batching: { priority_levels: 2, default_priority_level: 3 } },
    'dynamic_batching.default_priority_level',
    'is not one of the priority_levels, got 3',
  ],
  [
    'a policy for no priority',
    { dynamic_batching: { priority_levels: 2, default_priority_level: 1, priority_queue_policy: { 3: {} } } },
    'dynamic_batching.priority_queue_policy["3"]',
    'is not one of the priority_levels',
  ],
  [
    'priorities in order',
    { dynamic_batching: { preserve_ordering: true, priority_levels: 2, default_priority_level: 1 } },
    'dynamic_batching.priority_levels',
    'preserve_ordering allows one',
  ],
  [
    'delays in order',
    {
      dynamic_batching: {
        preserve_ordering: true,
        default_queue_policy: { timeout_action: 'DELAY', default_timeout_microseconds: 1 },
      },
    },
    'dynamic_batching.default_queue_policy.timeout_action',
    'must not be DELAY',
  ],
  [
    'a preferred size of sequences',
    sequence({ direct: undefined, oldest: { preferred_batch_size: [9] } }),
    'sequence_batching.oldest.preferred_batch_size[0]',
    'does not fit',
  ],
  [
    'a use of slots above 1',
    sequence({ direct: { minimum_slot_utilization: 1.5 } }),
    'sequence_batching.direct.minimum_slot_utilization',
    'is not a fraction, got 1.5',
  ],
  [
    'a use of slots below 0',
    sequence({ direct: { minimum_slot_utilization: -0.5 } }),
    'sequence_batching.direct.minimum_slot_utilization',
    'is not a fraction, got -0.5',
  ],
  [
    'a control without a name',
    sequence({ control_input: [{ control: [start] }] }),
    'sequence_batching.control_input[0].name',
    'is missing',
  ],
  [
    'a control twice',
    control(start, start),
    'sequence_batching.control_input[0].control[1].kind',
    'is given by sequence_batching.control_input[0].control[0] too',
  ],
  [
    'a control without values',
    control({ kind: 'CONTROL_SEQUENCE_END' }),
    'sequence_batching.control_input[0].control[0]',
    'says no values for false and true',
  ],
  [
    'a control with one value',
    control({ kind: 'CONTROL_SEQUENCE_READY', fp32_false_true: [0] }),
    'sequence_batching.control_input[0].control[0].fp32_false_true',
    'must be the value for false and the one for true, got 1',
  ],
  [
    'a control of two types',
    control({ ...start, bool_false_true: [false, true] }),
    'sequence_batching.control_input[0].control[0].bool_false_true',
    'cannot stand beside int32_false_true',
  ],
  [
    'a correlation id without a type',
    control({ kind: 'CONTROL_SEQUENCE_CORRID' }),
    'sequence_batching.control_input[0].control[0].data_type',
    'is no type of a correlation id, got nothing',
  ],
  [
    'a correlation id that is a fraction',
    control({ kind: 'CONTROL_SEQUENCE_CORRID', data_type: 'TYPE_FP32' }),
    'sequence_batching.control_input[0].control[0].data_type',
    'is no type of a correlation id, got TYPE_FP32',
  ],
  [
    'a correlation id with values',
    control({ kind: 'CONTROL_SEQUENCE_CORRID', data_type: 'TYPE_UINT64', int32_false_true: [0, 1] }),
    'sequence_batching.control_input[0].control[0].int32_false_true',
    'cannot be given for a correlation id',
  ],
  [
    'an initial state without a name',
    state({}, { name: undefined }),
    'sequence_batching.state[0].initial_state[0].name',
    'is missing',
  ],
  [
    'an initial state of another type',
    state({}, { data_type: 'TYPE_INT32' }),
    'sequence_batching.state[0].initial_state[0].data_type',
    "differs from the state's, got TYPE_INT32",
  ],
  [
    'an initial state of another shape',
    state({}, { dims: [3] }),
    'sequence_batching.state[0].initial_state[0].dims',
    'is no shape of the state, got [3]',
  ],
  [
    'an initial state of any size',
    state({}, { dims: [-1] }),
    'sequence_batching.state[0].initial_state[0].dims',
    'must be sizes, got [-1]',
  ],
  [
    'an initial state of a terabyte',
    state({ dims: [-1] }, { dims: [2 ** 40] }),
    'sequence_batching.state[0].initial_state[0].dims',
    'is larger than a server has memory for',
  ],
  [
    'an initial state without values',
    state({}, { zero_data: undefined }),
    'sequence_batching.state[0].initial_state[0]',
    'says no values',
  ],
  [
    'an initial state that is not there',
    state({}, { zero_data: undefined, data_file: 'zeros' }),
    'sequence_batching.state[0].initial_state[0].data_file',
    'names a file that is not in the model folder',
  ],
  [
    'two initial states',
    state({ initial_state: Array(2).fill({ name: 'z', data_type: 'TYPE_FP32', dims: [2], zero_data: true }) }),
    'sequence_batching.state[0].initial_state',
    'must be one, got 2',
  ],
  [
    'too many sequences',
    sequence({ direct: undefined, oldest: { max_candidate_sequences: 1_000_000 } }),
    'sequence_batching.oldest.max_candidate_sequences',
    'is the number of sequences that are kept at a time',
  ],
  [
    'too many slots',
    { max_batch_size: 1_000_000, ...sequence({}) },
    'max_batch_size',
    'is the number of sequences that are kept at a time',
  ],
  [
    'a batching library beside sequences',
    { ...sequence({}), parameters: { TRITON_BATCH_STRATEGY_PATH: { string_value: '/x.so' } } },
    'parameters.TRITON_BATCH_STRATEGY_PATH',
    'cannot stand beside sequence_batching',
  ],
  [
    'cached answers of sequences',
    { ...sequence({}), response_cache: { enable: true } },
    'response_cache.enable',
    'cannot stand beside sequence_batching',
  ],
  [
    'cached answers of a decoupled model',
    { model_transaction_policy: { decoupled: true }, response_cache: { enable: true } },
    'response_cache.enable',
    'cannot stand beside a decoupled',
  ],
  [
    'a metric without a family',
    { model_metrics: { metric_control: [{ histogram_options: { buckets: [1] } }] } },
    'model_metrics.metric_control[0].metric_identifier.family',
    'is missing',
  ],
  [
    'a metric without buckets',
    { model_metrics: { metric_control: [{ metric_identifier: { family: 'f' } }] } },
    'model_metrics.metric_control[0].histogram_options.buckets',
    'is missing',
  ],
  [
    'a batch input of another type',
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_INT64', source_input: ['input__0'] }] },
    'batch_input[0].data_type',
    'is no type of a batch input, got TYPE_INT64',
  ],
  [
    'a batch input without a type',
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', source_input: ['input__0'] }] },
    'batch_input[0].data_type',
    'is missing',
  ],
  [
    'a batch input of nothing',
    { batch_input: [{ kind: 'BATCH_ELEMENT_COUNT', data_type: 'TYPE_FP32' }] },
    'batch_input[0].source_input',
    'must name one input, got 0',
  ],
  [
    'a batch input of two',
    { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__0', 'input__0'] }] },
    'batch_input[0].source_input',
    'must name one input, got 2',
  ],
  [
    'a batch input of no input',
    { batch_input: [{ data_type: 'TYPE_FP32', source_input: ['input__9'] }] },
    'batch_input[0].source_input[0]',
    'is not an input of the model, got "input__9"',
  ],
  [
    'a batch output of no input',
    { batch_output: [{ source_input: ['x'], target_name: ['output__0'] }] },
    'batch_output[0].source_input[0]',
    'is not an input of the model',
  ],
  [
    'a batch output to no output',
    { batch_output: [{ source_input: ['input__0'], target_name: ['x'] }] },
    'batch_output[0].target_name[0]',
    'is not an output of the model',
  ],
  [
    'a batch output twice',
    { batch_output: [{ source_input: ['input__0'], target_name: ['output__0', 'output__0'] }] },
    'batch_output[0].target_name[1]',
    'is named twice',
  ],
  ['a negative count', { instance_group: [{ count: -1 }] }, 'instance_group[0].count', 'must not be negative, got -1'],
  [
    'a million instances',
    { instance_group: [{ count: 1_000_000 }] },
    'instance_group[0].count',
    'is more than any server can run',
  ],
  [
    'GPUs of the CPU',
    { instance_group: [{ kind: 'KIND_CPU', gpus: [0] }] },
    'instance_group[0].gpus',
    'cannot stand beside KIND_CPU',
  ],
  [
    'GPUs of the model',
    { instance_group: [{ kind: 'KIND_MODEL', gpus: [0] }] },
    'instance_group[0].gpus',
    'cannot stand beside KIND_MODEL',
  ],
  [
    'a negative GPU',
    { instance_group: [{ kind: 'KIND_GPU', gpus: [0, -1] }] },
    'instance_group[0].gpus[1]',
    "is no GPU's number, got -1",
  ],
  [
    'a profile outside TensorRT',
    { instance_group: [{ profile: ['0'] }] },
    'instance_group[0].profile',
    'is for platform tensorrt_plan alone',
  ],
  [
    'the newest 0 versions',
    { version_policy: { latest: {} } },
    'version_policy.latest.num_versions',
    'must be at least 1, got 0',
  ],
  [
    'no version in particular',
    { version_policy: { specific: {} } },
    'version_policy.specific.versions',
    'names no version',
  ],
  [
    'a version that is not there',
    { version_policy: { specific: { versions: [1, 2] } } },
    'version_policy.specific.versions[1]',
    'has no version folder, got 2',
  ],
  [
    'version 0',
    { version_policy: { specific: { versions: [0] } } },
    'version_policy.specific.versions[0]',
    'has no version folder, got 0',
  ],
  [
    'version -1',
    { version_policy: { specific: { versions: [-1] } } },
    'version_policy.specific.versions[0]',
    'has no version folder, got -1',
  ],
  [
    'a warm-up that is skipped',
    warmup({ batch_size: undefined }),
    'model_warmup[0].batch_size',
    'is 0: Triton skips this warm-up',
  ],
  [
    'a warm-up in too large a batch',
    warmup({ batch_size: 9 }),
    'model_warmup[0].batch_size',
    'is more than max_batch_size 8 allows, got 9',
  ],
  [
    'a warm-up without end',
    warmup({ count: 4_000_000_000 }),
    'model_warmup[0].count',
    'would keep the model from being served',
  ],
  [
    'a warm-up of no input',
    warmup({ inputs: undefined }),
    'model_warmup[0].inputs',
    'gives no value for the input "input__0"',
  ],
  [
    'a warm-up of another type',
    warmup({}, { data_type: 'TYPE_INT64' }),
    'model_warmup[0].inputs.input__0.data_type',
    "differs from the input's, got TYPE_INT64",
  ],
  [
    'a warm-up of another shape',
    warmup({}, { dims: [4] }),
    'model_warmup[0].inputs.input__0.dims',
    'is no shape of the input, got [4]',
  ],
  [
    'a warm-up of any size',
    warmup({}, { dims: [-1] }),
    'model_warmup[0].inputs.input__0.dims',
    'must be sizes, got [-1]',
  ],
  [
    'a warm-up of a terabyte',
    { input: [input({ dims: [-1] })], ...warmup({}, { dims: [2 ** 40] }) },
    'model_warmup[0].inputs.input__0.dims',
    'is larger than a server has memory for',
  ],
  [
    'a warm-up without values',
    warmup({}, { zero_data: undefined }),
    'model_warmup[0].inputs.input__0',
    'says no values',
  ],
  [
    'a warm-up file that is not there',
    warmup({}, { zero_data: undefined, input_data_file: 'a.bin' }),
    'model_warmup[0].inputs.input__0.input_data_file',
    'names a file that is not in the model folder',
  ],
  [
    'labels that are not there',
    { output: [output({ label_filename: 'labels.txt' })] },
    'output[0].label_filename',
    'names a file that is not in the model folder',
  ],
  [
    'labels elsewhere',
    { output: [output({ label_filename: '../labels.txt' })] },
    'output[0].label_filename',
    'leaves the model folder',
  ],
  [
    'a parameter that leaves the folder',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/../x' } } },
    'parameters.p.string_value',
    'leaves the model folder',
  ],
  [
    'a parameter that names no file',
    { parameters: { p: { string_value: '$$TRITON_MODEL_DIRECTORY/x' } } },
    'parameters.p.string_value',
    'names a file that is not in the model folder',
  ],
];

/** Each of them in both languages. */
const ruleCases = (): MalformedCase[] =>
  RULES.flatMap(([name, fields, field, says]) => {
    const config = sound(fields);
    const artifacts = { ...ARTIFACT, 'm/1/model.py': 'x', 'm/1/x': torchScript() };
    return [
      {
        name: `model.yaml: ${name}`,
        files: { ...artifacts, 'm/model.yaml': JSON.stringify(config) },
        problem: begins(`m/model.yaml: ${field}: ${says}`),
      },
      {
        name: `config.pbtxt: ${name}`,
        files: { ...artifacts, 'm/config.pbtxt': configText(config as unknown as ModelConfig) },
        problem: begins(`m/config.pbtxt: ${field}: ${says}`),
      },
    ];
  });

// --- Ensembles ---------------------------------------------------------------------------------------------------------

const tensor = (name: string, data_type = 'TYPE_FP32', dims = [3]): Fields => ({ name, data_type, dims });
const STEP = 'ensemble_scheduling.step';
const step = (fields: Fields = {}): Fields => ({
  ...{ model_name: 'a', model_version: -1, input_map: { input__0: 'x' }, output_map: { output__0: 'y' } },
  ...fields,
});
const ensemble = (steps: Fields[], fields: Fields = {}): Fields => ({
  ...{ platform: 'ensemble', max_batch_size: 4, input: [tensor('x')], output: [tensor('y')] },
  ensemble_scheduling: { step: steps },
  ...fields,
});
/** Two steps, one after the other. */
const chain = (second: Fields = {}, first: Fields = {}): Fields[] => [
  step({ output_map: { output__0: 'between' }, ...first }),
  step({ model_name: 'b', input_map: { input__0: 'between' }, ...second }),
];

const PART = sound({ output: [output({ dims: [3] })] });
const PARTS = {
  a: PART,
  b: PART,
  small: { ...PART, max_batch_size: 2 },
  ints: { ...PART, input: [input({ data_type: 'TYPE_INT32' })] },
};

const ENSEMBLES: [name: string, config: Fields, field: string, says: string][] = [
  ['no steps', ensemble([]), STEP, 'is empty: an ensemble has at least one step'],
  ['no scheduling', { ...ensemble([]), ensemble_scheduling: undefined }, 'ensemble_scheduling', 'is missing'],
  ['a backend', ensemble([step()], { backend: 'python' }), 'backend', 'an ensemble has none, got "python"'],
  [
    'instances',
    ensemble([step()], { instance_group: [{ count: 1 }] }),
    'instance_group',
    'cannot be given for an ensemble',
  ],
  [
    'optimisation',
    ensemble([step()], { optimization: { eager_batching: true } }),
    'optimization',
    'cannot be given for an ensemble',
  ],
  [
    'a warm-up',
    ensemble([step()], {
      model_warmup: [{ batch_size: 1, inputs: { x: { data_type: 'TYPE_FP32', dims: [3], zero_data: true } } }],
    }),
    'model_warmup',
    'cannot be given for an ensemble',
  ],
  ['a step without a model', ensemble([step({ model_name: undefined })]), `${STEP}[0].model_name`, 'is missing'],
  ['a step without inputs', ensemble([step({ input_map: undefined })]), `${STEP}[0].input_map`, 'is missing'],
  ['a step without outputs', ensemble([step({ output_map: undefined })]), `${STEP}[0].output_map`, 'is missing'],
  [
    'a model that is not there',
    ensemble([step({ model_name: 'nobody' })]),
    `${STEP}[0].model_name`,
    'is not in the repository, got "nobody"',
  ],
  [
    'a misspelt model',
    ensemble(chain({ model_name: 'smal' })),
    `${STEP}[1].model_name`,
    'is not in the repository, got "smal"',
  ],
  [
    'a version that is not there',
    ensemble([step({ model_version: 7 })]),
    `${STEP}[0].model_version`,
    'is not a version of a, got 7',
  ],
  [
    'version 0',
    ensemble([step({ model_version: undefined })]),
    `${STEP}[0].model_version`,
    'is not a version of a, got 0',
  ],
  ['version -2', ensemble([step({ model_version: -2 })]), `${STEP}[0].model_version`, 'is not a version of a, got -2'],
  [
    'itself',
    ensemble([step({ model_name: 'm', input_map: { x: 'x' }, output_map: { y: 'y' } })]),
    `${STEP}[0].model_name`,
    'leads back to this ensemble: m -> m',
  ],
  [
    'larger batches than a step',
    ensemble([step({ model_name: 'small' })]),
    `${STEP}[0].model_name`,
    'small takes batches of 2 at most, the ensemble 4',
  ],
  [
    'an input that the model has not',
    ensemble([step({ input_map: { input__7: 'x' } })]),
    `${STEP}[0].input_map.input__7`,
    'is not an input of a',
  ],
  [
    'an output that the model has not',
    ensemble([step({ output_map: { output__7: 'y' } })]),
    `${STEP}[0].output_map.output__7`,
    'is not an output of a',
  ],
  [
    'a tensor that nobody writes',
    ensemble(chain({ input_map: { input__0: 'betwen' } })),
    `${STEP}[1].input_map.input__0`,
    'reads "betwen", which neither a client nor a step writes',
  ],
  [
    'an output that nobody writes',
    ensemble([step()], { output: [tensor('y'), tensor('zzz')] }),
    'output[1]',
    'reads "zzz", which neither a client nor a step writes',
  ],
  [
    'an input that nobody reads',
    ensemble([step()], { input: [tensor('x'), tensor('zzz')] }),
    'input[1]',
    'writes "zzz", which nothing reads',
  ],
  [
    'a tensor that nobody reads',
    ensemble([step(), step({ model_name: 'b', output_map: { output__0: 'zzz' } })]),
    `${STEP}[1].output_map.output__0`,
    'writes "zzz", which nothing reads',
  ],
  [
    'a tensor with two writers',
    ensemble([step(), step({ model_name: 'b' })]),
    `${STEP}[1].output_map.output__0`,
    'writes "y", which output "output__0" of a writes already',
  ],
  [
    'another type between steps',
    ensemble(chain({ model_name: 'ints' })),
    `${STEP}[1].input_map.input__0`,
    '"between" is TYPE_FP32 from output "output__0" of a, but TYPE_INT32 for input "input__0" of ints',
  ],
  [
    'another type than the client’s',
    ensemble([step()], { input: [tensor('x', 'TYPE_INT64')] }),
    `${STEP}[0].input_map.input__0`,
    '"x" is TYPE_INT64 from the ensemble\'s input, but TYPE_FP32 for',
  ],
  [
    'another shape than the client’s',
    ensemble([step()], { input: [tensor('x', 'TYPE_FP32', [5])] }),
    `${STEP}[0].input_map.input__0`,
    '"x" is [-1, 5] from',
  ],
  [
    'another type for the client',
    ensemble([step()], { output: [tensor('y', 'TYPE_BOOL')] }),
    'output[0]',
    '"y" is TYPE_FP32 from output "output__0" of a, but TYPE_BOOL for',
  ],
  [
    'another shape for the client',
    ensemble([step()], { output: [tensor('y', 'TYPE_FP32', [3, 3])] }),
    'output[0]',
    '"y" is [-1, 3] from',
  ],
  [
    'a step that waits for itself',
    ensemble([step(), step({ model_name: 'b', input_map: { input__0: 'z' }, output_map: { output__0: 'z' } })]),
    `${STEP}[1].input_map`,
    'never runs: it waits for z',
  ],
  ['no inputs', ensemble([step()], { input: undefined }), 'input', 'at least one is needed'],
  ['no outputs', ensemble([step()], { output: undefined }), 'output', 'at least one is needed'],
];

/** What two things follow from by the nature of the mistake. */
const TWO_FOLLOW = new Set(['no inputs', 'no outputs']);

function ensembleCases(): MalformedCase[] {
  const parts = Object.fromEntries(
    Object.entries(PARTS).flatMap(([name, config]) => [
      [`${name}/model.yaml`, JSON.stringify(config)],
      [`${name}/1/model.pt`, torchScript()],
    ]),
  ) as Record<string, Malformed>;
  return ENSEMBLES.flatMap(([name, config, field, says]) => {
    const given = Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
    const problems = TWO_FOLLOW.has(name) ? 2 : 1;
    return [
      {
        name: `an ensemble in model.yaml: ${name}`,
        files: { ...parts, 'm/model.yaml': JSON.stringify(given), 'm/1/.keep': '.' },
        problem: begins(`m/model.yaml: ${field}: ${says}`),
        problems,
      },
      {
        name: `an ensemble in config.pbtxt: ${name}`,
        files: {
          ...parts,
          'm/config.pbtxt': configText(JSON.parse(JSON.stringify(given)) as ModelConfig),
          'm/1/.keep': '.',
        },
        problem: begins(`m/config.pbtxt: ${field}: ${says}`),
        problems,
      },
    ];
  });
}

// --- Files and names -----------------------------------------------------------------------------------------------------

const YAML = { 'm/model.yaml': JSON.stringify(sound()) };
const file = (
  name: string,
  files: Record<string, Malformed>,
  problem: string | RegExp,
  more: Partial<MalformedCase> = {},
): MalformedCase => ({
  name: `files: ${name}`,
  files: { ...YAML, ...files },
  problem: typeof problem === 'string' ? begins(problem) : problem,
  ...more,
});

const FILES: MalformedCase[] = [
  file('no version folder', {}, 'm: has no version folder'),
  file('an empty version folder', { 'm/1/': '' }, 'm/1/model.pt: is missing'),
  file('another file', { 'm/1/model.onnx': 'x' }, 'm/1/model.pt: is missing'),
  file('another name', { 'm/1/Model.pt': torchScript() }, 'm/1/model.pt: is missing'),
  file('an empty artifact', { 'm/1/model.pt': '' }, 'm/1/model.pt: is empty'),
  file('a folder as artifact', { 'm/1/model.pt/x': 'x' }, 'm/1/model.pt: is a folder; a file is needed'),
  file('prose as artifact', { 'm/1/model.pt': 'hello world' }, 'm/1/model.pt: is not TorchScript'),
  file(
    'a pointer of Git LFS as artifact',
    { 'm/1/model.pt': 'version https://git-lfs.github.com/spec/v1\n' },
    'm/1/model.pt: is not TorchScript',
  ),
  file('two bytes as artifact', { 'm/1/model.pt': 'PK' }, 'm/1/model.pt: is not TorchScript'),
  file(
    'a pickle as artifact',
    { 'm/1/model.pt': Buffer.from([0x80, 2, 0x8a]) },
    'm/1/model.pt: is a pickle, not TorchScript',
  ),
  file(
    'weights alone as artifact',
    { 'm/1/model.pt': zip(['model/data.pkl', 'model/data/0']) },
    'm/1/model.pt: is a zip archive without code',
  ),
  file('an archive cut short', { 'm/1/model.pt': torchScript().subarray(0, 90) }, 'm/1/model.pt: is cut short'),
  file('an archive without its end', { 'm/1/model.pt': torchScript().subarray(0, -10) }, 'm/1/model.pt: is cut short'),
  file('one broken version of two', { ...ARTIFACT, 'm/2/model.pt': 'x' }, 'm/2/model.pt: is not TorchScript'),
  file('version 01', { ...ARTIFACT, 'm/01/model.pt': torchScript() }, 'm/01: is not a version that Triton serves'),
  file('version 0', { ...ARTIFACT, 'm/0/model.pt': torchScript() }, 'm/0: is not a version that Triton serves'),
  file('version -1', { ...ARTIFACT, 'm/-1/model.pt': torchScript() }, 'm/-1: is not a version that Triton serves'),
  file('version +1', { ...ARTIFACT, 'm/+1/model.pt': torchScript() }, 'm/+1: is not a version that Triton serves'),
  file(
    'version 1abc',
    { ...ARTIFACT, 'm/1abc/model.pt': torchScript() },
    'm/1abc: is not a version that Triton serves',
  ),
  file('version 1.0', { ...ARTIFACT, 'm/1.0/model.pt': torchScript() }, 'm/1.0: is not a version that Triton serves'),
  file('version v2', { ...ARTIFACT, 'm/v2/model.pt': torchScript() }, 'm/v2: is not a version that Triton serves'),
  file(
    'a version beyond all numbers',
    { ...ARTIFACT, 'm/99999999999999999999/model.pt': 'x' },
    'm/99999999999999999999: is not a version',
  ),
  file(
    'a file with the name of a version',
    { ...ARTIFACT, 'm/2': 'x' },
    'm/2: has the name of a version, but is a file',
  ),
  file(
    'a link that leads nowhere',
    { ...ARTIFACT, 'm/1/gone': { link: 'nowhere' } },
    'm/1/gone: cannot be read: there is no such file',
  ),
  file('an artifact that leads nowhere', { 'm/1/model.pt': { link: 'nowhere' } }, 'm/1/model.pt: cannot be read'),
  file(
    'a link out of the folder',
    { ...ARTIFACT, 'm/1/x': { link: '/etc/hostname' } },
    'm/1/x: is a link that leaves the model folder',
  ),
  file(
    'a link to another model',
    { ...ARTIFACT, 'm/1/x': { link: '../../README' }, README: 'x' },
    'm/1/x: is a link that leaves the model folder',
  ),
  file(
    'a link to itself',
    { ...ARTIFACT, 'm/1/x': { link: 'x' } },
    'm/1/x: cannot be read: its links lead in a circle',
  ),
  file(
    'a link to the folder above',
    { ...ARTIFACT, 'm/1/x': { link: '..' } },
    'm/1/x: is a link to a folder that it lies in',
  ),
  file(
    'a link to its own folder',
    { ...ARTIFACT, 'm/1/x': { link: '.' } },
    'm/1/x: is a link to a folder that it lies in',
  ),
  file(
    'a version that leads out',
    { ...ARTIFACT, 'm/2': { link: '/usr' } },
    'm/2: is a link that leaves the model folder',
    { problems: 2 },
  ),
  file('a pipe', { ...ARTIFACT, 'm/1/pipe': 'pipe' }, 'm/1/pipe: is not a regular file'),
  file('a pipe as artifact', { 'm/1/model.pt': 'pipe' }, 'm/1/model.pt: is not a regular file'),
  file('a backslash', { ...ARTIFACT, 'm/1/a\\b': 'x' }, 'm/1/a\\b: has a name that S3 and Triton cannot take'),
  file('a line break', { ...ARTIFACT, 'm/1/a\nb': 'x' }, 'm/1/a\nb: has a name that S3 and Triton cannot take'),
  file(
    'a control character',
    { ...ARTIFACT, 'm/1/a\u0007': 'x' },
    'm/1/a\u0007: has a name that S3 and Triton cannot take',
  ),
  file(
    'a path longer than S3 takes',
    { ...ARTIFACT, [`m/1/${Array(4).fill('d'.repeat(200)).join('/')}`]: 'x' },
    /^m\/1\/.*: has a path of 805 bytes/,
  ),
  file(
    'an artifact that may not be read',
    { 'm/1/model.pt': { mode: 0, content: torchScript() } },
    'm/1/model.pt: cannot be read: permission denied',
    { notForRoot: true },
  ),
  file(
    'a configuration that may not be read',
    { ...ARTIFACT, 'm/model.yaml': { mode: 0, content: SOUND_YAML } },
    'm/model.yaml: cannot be read: permission denied',
    { notForRoot: true },
  ),
  file(
    'a warm-up file that is too short',
    {
      ...ARTIFACT,
      'm/model.yaml': JSON.stringify(sound(warmup({}, { zero_data: undefined, input_data_file: 'a' }))),
      'm/warmup/a': 'x',
    },
    'm/model.yaml: model_warmup[0].inputs.input__0.input_data_file: names a file that is too short: "warmup/a" has 1 bytes; allowed: 12 bytes',
  ),
  file(
    'an initial state that is too short',
    {
      ...ARTIFACT,
      'm/model.yaml': JSON.stringify(sound(state({}, { zero_data: undefined, data_file: 'a' }))),
      'm/initial_state/a': '',
    },
    'm/model.yaml: sequence_batching.state[0].initial_state[0].data_file: names a file that is too short',
  ),
  file(
    'both languages, with different words',
    { ...ARTIFACT, 'm/config.pbtxt': 'platform: "pytorch_libtorch"' },
    'm/config.pbtxt: says something else than the model.yaml beside it',
  ),
  file(
    'both languages, one of them broken',
    { ...ARTIFACT, 'm/config.pbtxt': '{' },
    'm/config.pbtxt: says something else than the model.yaml beside it',
  ),
  file(
    'a configuration that leads nowhere',
    { ...ARTIFACT, 'm/model.yaml': { link: 'nowhere' } },
    'm/model.yaml: cannot be read: there is no such file',
  ),
  {
    name: 'files: no configuration',
    files: ARTIFACT,
    problem: begins('m: has version folders, but neither model.yaml nor config.pbtxt'),
  },
  {
    name: 'files: a folder as model.yaml',
    files: { ...ARTIFACT, 'm/model.yaml/': '' },
    problem: begins('m/model.yaml: cannot be read: it is a folder'),
  },
  {
    name: 'files: a folder as config.pbtxt',
    files: { ...ARTIFACT, 'm/config.pbtxt/': '' },
    problem: begins('m/config.pbtxt: cannot be read: it is a folder'),
  },
  {
    name: 'files: a pipe as model.yaml',
    files: { ...ARTIFACT, 'm/model.yaml': 'pipe' },
    problem: begins('m/model.yaml: is not a regular file'),
  },
  {
    name: 'files: a pipe as config.pbtxt',
    files: { ...ARTIFACT, 'm/config.pbtxt': 'pipe' },
    problem: begins('m/config.pbtxt: is not a regular file'),
  },
  {
    name: 'files: a configuration that leads out',
    files: { ...ARTIFACT, 'm/model.yaml': { link: '/etc/hostname' } },
    problem: begins('m/model.yaml: is a link that leaves the model folder'),
  },
  { name: 'files: nothing', files: { README: 'x' }, problem: begins('.: holds no model') },
  {
    name: 'files: a model that leads out',
    files: { m: { link: '/usr' }, 'n/1/': '' },
    problem: begins('n: has version folders, but neither'),
  },
];

const NAMES: MalformedCase[] = [
  'a b',
  'a+b',
  'a%b',
  'a&b',
  'a?b',
  'a#b',
  'a:b',
  "a'b",
  'a"b',
  'é',
  '模型',
  '-a',
  'a*b',
  'a,b',
  'a@b',
  'a$b',
  'a=b',
  'a~b',
  'a\\b',
].map((name) => ({
  name: `names: a model called ${name}`,
  files: { [`${name}/model.yaml`]: JSON.stringify(sound()), [`${name}/1/model.pt`]: torchScript() },
  problem: new RegExp(`^${escaped(name)}/model\\.yaml: name: cannot be used as a name in S3`),
}));

/** Model repositories that cannot be published, with what is said of each. */
export const MALFORMED: readonly MalformedCase[] = [
  ...wrongKinds(),
  ...unknownFields(),
  ...YAML_TRAPS,
  ...TEXT_TRAPS,
  ...unknownTextFields(),
  ...ruleCases(),
  ...ensembleCases(),
  ...FILES,
  ...NAMES,
];
