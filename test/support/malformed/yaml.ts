import { ARTIFACT, begins, type MalformedCase } from './case';

export const SOUND_YAML = `platform: pytorch_libtorch
max_batch_size: 8
input: [{ name: input__0, data_type: TYPE_FP32, dims: [3] }]
output: [{ name: output__0, data_type: TYPE_FP32, dims: [4] }]
`;

const yaml = (name: string, text: string | Buffer, ...problems: (string | RegExp)[]): MalformedCase => ({
  name: `model.yaml: ${name}`,
  files: { ...ARTIFACT, 'm/model.yaml': text },
  problems: problems.map((problem) => (typeof problem === 'string' ? begins(`m/model.yaml: ${problem}`) : problem)),
});

const bomb = (): string => {
  const levels = Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(', ')}]`);
  return `a0: &a0 x\n${levels.join('\n')}\n`;
};

const NO_YAML = 'not valid YAML: line ';
const START = '\n    -> start with "platform: pytorch_libtorch"';
const NO_MAPPING = "must be a mapping of Triton's ModelConfig fields, got ";

/** Texts that are not YAML, or have another meaning than they seem to. */
export const YAML_TRAPS: readonly MalformedCase[] = [
  yaml('empty', '', `is empty${START}`),
  yaml('a byte order mark alone', '\uFEFF', 'is empty'),
  yaml('a word', 'pytorch\n', `${NO_MAPPING}"pytorch"${START}`),
  yaml('null', '~\n', `${NO_MAPPING}nothing`),
  yaml(
    'a key twice',
    `${SOUND_YAML}max_batch_size: 4\n`,
    /^m\/model\.yaml: not valid YAML: line 5, column \d+: duplicated mapping key/,
  ),
  yaml('an open bracket', `${SOUND_YAML}parameters: [\n`, NO_YAML),
  yaml('two documents', `${SOUND_YAML}---\n${SOUND_YAML}`, 'not valid YAML: '),
  yaml('an anchor that is not there', SOUND_YAML.replace('TYPE_FP32', '*type'), NO_YAML),
  yaml('aliases of aliases', bomb(), ...Array.from({ length: 10 }, (_, i) => `a${i}: unknown field of ModelConfig`)),
  yaml(
    'an alias in itself',
    'platform: pytorch_libtorch\noutput: [{ name: output__0, data_type: TYPE_FP32, dims: [4] }]\ninput: &a\n  - *a\n',
    /^m\/model\.yaml: (not valid YAML|input\[0\]: must be a mapping, got a list)/,
  ),
  yaml('a tag of Python', `${SOUND_YAML}name: !!python/object:os.system m\n`, NO_YAML),
  yaml('a control character', `${SOUND_YAML}name: "m\u0001"\n`, NO_YAML),
  yaml('bytes that are no UTF-8', Buffer.from([0x61, 0x3a, 0x20, 0xc3, 0x28]), 'is not UTF-8 text'),
  yaml('UTF-16', Buffer.from(`\uFEFF${SOUND_YAML}`, 'utf16le'), 'is not UTF-8 text'),
  yaml(
    'half of a surrogate pair',
    `${SOUND_YAML}name: "\\uD800"\n`,
    'name: must be a string that UTF-8 can encode, got "\\ud800"',
  ),
  yaml('a picture', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), 'is not UTF-8 text'),
  yaml('a config.pbtxt', 'platform: "pytorch_libtorch"\ninput [ { name: "x" } ]\n', NO_YAML),
  yaml('a hundred thousand brackets', `parameters: ${'['.repeat(100_000)}`, 'not valid YAML: '),
  yaml(
    'a size that doubles cannot tell',
    SOUND_YAML.replace('[3]', '[9007199254740993]'),
    'input[0].dims[0]: is out of range, got 9007199254740993',
  ),
  yaml('a key that is a number', `${SOUND_YAML}1: x\n`, 'field names must be strings, got 1'),
  yaml(
    'capitals',
    SOUND_YAML.replace('max_batch_size', 'MAX_BATCH_SIZE'),
    /^m\/model\.yaml: MAX_BATCH_SIZE: unknown field of ModelConfig.*did you mean "max_batch_size"/s,
  ),
  // The intended name is not also reported as missing.
  ...(
    [
      ['platfrom', 'platform', ''],
      ['inputs', 'input', ''],
      ['data-type', 'data_type', 'input[0].'],
      ['Dims', 'dims', 'input[0].'],
    ] as const
  ).map(([written, meant, parent]) =>
    yaml(
      `${parent}${written} for ${meant}`,
      SOUND_YAML.replace(new RegExp(`\\b${meant}:`), `${written}:`),
      new RegExp(`: unknown field of .*-> did you mean "${meant}"\\?$`, 's'),
    ),
  ),
  yaml(
    'a name of a megabyte',
    `${'a'.repeat(900_000)}: 1\n${SOUND_YAML}`,
    `${'a'.repeat(80)}...: unknown field of ModelConfig`,
  ),
  // Problems that only follow from an unreadable field are not reported.
  yaml(
    'a batch size that is a text, with what depends on it',
    `${SOUND_YAML.replace('8\n', 'eight\n')}dynamic_batching: { preferred_batch_size: [4] }\n`,
    'max_batch_size: must be a whole number, got "eight"',
  ),
  yaml(
    'a platform that is a number, with what depends on it',
    SOUND_YAML.replace('pytorch_libtorch', '5').replace('dims: [3]', 'dims: [3], is_shape_tensor: true'),
    'platform: must be a string, got 5',
  ),
  yaml(
    'an unknown type, with a warm-up of it',
    `${SOUND_YAML.replace('TYPE_FP32', 'FP32')}model_warmup: [{ batch_size: 1, inputs: { input__0: { data_type: TYPE_FP32, dims: [3], zero_data: true } } }]\n`,
    'input[0].data_type: is not one of the values of DataType, got "FP32"',
  ),
];
