import { typesText } from '../../../src/infer/types';
import type { TensorMetadata } from '../../../src/triton/client';

const model = (name: string, inputs: TensorMetadata[], outputs: TensorMetadata[], optionalInputs: string[] = []) => ({
  name,
  metadata: { name, versions: ['1'], platform: '', inputs, outputs },
  optionalInputs,
});

it('typesText writes inputs, optional inputs and outputs of each model', () => {
  const bert = model(
    'bert',
    [
      { name: 'ids', datatype: 'INT64', shape: [-1, -1] },
      { name: 'types', datatype: 'INT64', shape: [-1, -1] },
    ],
    [{ name: 'hidden', datatype: 'FP16', shape: [-1, -1, 384] }],
    ['types'],
  );
  const empty = model('empty', [], [{ name: 'y', datatype: 'BYTES', shape: [] }]);
  expect(typesText([bert, empty], 'http://127.0.0.1:8000')).toBe(
    `// Inputs and outputs of the models at http://127.0.0.1:8000, written by "npm run infer -- --types".
// For TritonModel.open<Models['NAME']>(client, 'NAME'). A length of -1 means any length.
export interface Models {
  bert: {
    inputs: {
      /** [-1, -1] */
      ids: 'INT64';
    };
    optional: {
      /** [-1, -1] */
      types: 'INT64';
    };
    outputs: {
      /** [-1, -1, 384] */
      hidden: 'FP16';
    };
  };
  empty: {
    inputs: {
    };
    outputs: {
      /** [] */
      y: 'BYTES';
    };
  };
}
`,
  );
});

it.each([
  ['ens_v2.1', `'ens_v2.1'`],
  ['1st', `'1st'`],
  [`it's`, `'it\\'s'`],
  ['a\\b', `'a\\\\b'`],
  ['a\nb', `'a\\nb'`],
])('typesText writes the name %j as a property', (name, property) => {
  expect(typesText([model(name, [], [])], 'here')).toContain(`  ${property}: {\n`);
});

it('typesText rejects an unknown data type, because the text of a server becomes code', () => {
  const odd = model('odd', [{ name: 'x', datatype: `FP32'; evil: '`, shape: [1] }], []);
  expect(() => typesText([odd], 'here')).toThrow(`odd: tensor 'x' has an unknown data type: "FP32'; evil: '"`);
});
