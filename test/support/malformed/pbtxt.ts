import { ARTIFACT, begins, type MalformedCase } from './case';
import { SOUND_YAML } from './yaml';

const pbtxt = (name: string, text: string | Buffer, problem: string | RegExp): MalformedCase => ({
  name: `config.pbtxt: ${name}`,
  files: { ...ARTIFACT, 'm/config.pbtxt': text },
  problems: [typeof problem === 'string' ? begins(`m/config.pbtxt: ${problem}`) : problem],
});

const SOUND_TEXT = `platform: "pytorch_libtorch"
max_batch_size: 8
input { name: "input__0" data_type: TYPE_FP32 dims: 3 }
output { name: "output__0" data_type: TYPE_FP32 dims: 4 }
`;

const line = (number: number): string => `line ${number}: not a ModelConfig in protobuf text format: `;

/** Texts that are not protobuf text format, or have another meaning than they seem to. */
export const TEXT_TRAPS: readonly MalformedCase[] = [
  pbtxt('YAML', SOUND_YAML, line(1)),
  pbtxt('JSON', '{ "platform": "pytorch_libtorch" }', line(1)),
  pbtxt('an open brace', `${SOUND_TEXT}parameters {\n`, /^m\/config\.pbtxt: line \d+: /),
  pbtxt('an open list', SOUND_TEXT.replace('dims: 3', 'dims: [3'), line(3)),
  pbtxt('a comma at the end of a list', SOUND_TEXT.replace('dims: 3', 'dims: [3,]'), line(3)),
  pbtxt('a value twice', `${SOUND_TEXT}max_batch_size: 4\n`, line(5)),
  pbtxt('a word for a text', SOUND_TEXT.replace('"pytorch_libtorch"', 'pytorch_libtorch'), line(1)),
  pbtxt('a text for a number', SOUND_TEXT.replace('8', '"8"'), line(2)),
  pbtxt('a number of 32 bits and more', SOUND_TEXT.replace('8', '2147483648'), line(2)),
  pbtxt('a negative number without sign', `${SOUND_TEXT}model_warmup { batch_size: -1 }\n`, line(5)),
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
  pbtxt('a comment of another language', `// mine\n${SOUND_TEXT}`, line(1)),
  pbtxt('bytes that are no UTF-8', Buffer.from([0x61, 0x3a, 0xff]), 'is not UTF-8 text'),
  pbtxt(
    'binary protobuf',
    Buffer.from([0x0a, 0x01, 0x6d, 0x12, 0x10, 0x70]),
    /^m\/config\.pbtxt: line \d: not a ModelConfig/,
  ),
  pbtxt('two kinds of scheduling', `${SOUND_TEXT}dynamic_batching {}\nsequence_batching {}\n`, line(6)),
  pbtxt(
    'braces a hundred thousand deep',
    `parameters ${'{ value '.repeat(100_000)}`,
    /^m\/config\.pbtxt: (line \d+: )?not a ModelConfig/,
  ),
  pbtxt(
    'an unknown field',
    SOUND_TEXT.replace('max_batch_size', 'max_batchsize'),
    /^m\/config\.pbtxt: line 2: .*did you mean "max_batch_size"/s,
  ),
];
