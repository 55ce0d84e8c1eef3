import { inBothLanguages, input, output, sound, type Fields, type MalformedCase, type RuleCase } from '../case';

const program = (fields: Fields = {}): Fields => ({
  platform: 'torch_aoti',
  max_batch_size: 0,
  input: [input({ name: 'INPUT__0' })],
  output: [output({ name: 'OUTPUT__0' })],
  ...fields,
});
const NEWER = 'use a newer image of Triton';
const TORCH_AOTI = (release: string): string =>
  `platform: is not supported by Triton ${release}, got torch_aoti; allowed: 26.03 or newer\n    -> ${NEWER}, or platform: pytorch_libtorch`;
const NUMBERED = `${NEWER}, or number the tensors in the order of forward(): INPUT__0, OUTPUT__0`;

const CASES: readonly (readonly [triton: string, ...RuleCase])[] = [
  // Only the platform is reported, not what a release with it would lack.
  ['26.02', program({ max_batch_size: 8, input: [input({ name: 'ARGS[0]' })] }), TORCH_AOTI('26.02')],
  [
    '26.04',
    program({ input: [input({ name: 'ARGS[0]' })], output: [output({ name: 'RESULT' })] }),
    [
      `input[0].name: is not supported by Triton 26.04, got "ARGS[0]"; allowed: 26.05 or newer\n    -> ${NUMBERED}`,
      `output[0].name: is not supported by Triton 26.04, got "RESULT"; allowed: 26.05 or newer\n    -> ${NUMBERED}`,
    ],
  ],
  [
    '26.05',
    program({ max_batch_size: 8, input: [input({ name: 'ARGS[0]' })] }),
    `max_batch_size: is not supported by Triton 26.05, got 8; allowed: 26.06 or newer\n    -> ${NEWER}, or set max_batch_size: 0`,
  ],
  [
    '26.10',
    program({ output: [output({ name: 'OUTPUT__0', data_type: 'TYPE_BF16' })] }),
    `output[0].data_type: is not supported by Triton 26.10, got TYPE_BF16; allowed: 26.11 or newer\n    -> ${NEWER}, or convert the data type inside the model`,
  ],
];

/** Models that a release of Triton cannot serve, but others can. */
export const RELEASES = (files: MalformedCase['files']): MalformedCase[] =>
  CASES.flatMap(([triton, fields, ...problems]) =>
    inBothLanguages(`${triton} `, [sound(fields), ...problems], files).map((one) => ({ ...one, triton })),
  );
