import { RequestError, type InferenceClient, type ModelMetadata } from '../../../src/triton/client';
import { inputsFor, TritonModel } from '../../../src/triton/model';
import type { InputValue } from '../../../src/triton/model';
import type { Tensor } from '../../../src/triton/tensor';

const METADATA: ModelMetadata = {
  name: 'm',
  versions: ['1'],
  platform: '',
  inputs: [
    { name: 'image', datatype: 'FP32', shape: [-1, 2, 2] },
    { name: 'label', datatype: 'BYTES', shape: [-1, 1] },
  ],
  outputs: [],
};
const LABEL = { label: [['a']] };

function getProblems(values: Record<string, InputValue>): string[] {
  try {
    inputsFor(METADATA, values);
  } catch (error) {
    expect(error).toBeInstanceOf(RequestError);
    const { model, inputs, message } = error as RequestError;
    expect(model).toBe('m');
    // A log shows the message alone.
    const [title, ...lines] = message.split(/\n {2}(?! )/);
    expect(title).toBe('the request does not fit m');
    expect(lines).toEqual(
      inputs.map(({ input, message, allowed, hint }) =>
        [`${input}: ${message}; allowed: ${allowed}`, ...(hint === undefined ? [] : [hint])].join('\n    -> '),
      ),
    );
    return lines;
  }
  return [];
}

it.each<[string, InputValue]>([
  [
    'nested arrays',
    [
      [
        [1, 2],
        [3, 4],
      ],
    ],
  ],
  ['elements for a shape with one variable length', Float32Array.of(1, 2, 3, 4)],
  ['elements with their shape', { data: Float32Array.of(1, 2, 3, 4), shape: [1, 2, 2] }],
])('inputsFor converts %s to tensors with the names and data types of the model', (_, image) => {
  expect(inputsFor(METADATA, { label: [['a']], image })).toEqual([
    { name: 'image', datatype: 'FP32', shape: [1, 2, 2], data: Float32Array.of(1, 2, 3, 4) },
    { name: 'label', datatype: 'BYTES', shape: [1, 1], data: [Buffer.from('a')] },
  ]);
});

it('inputsFor accepts a Buffer for UINT8', () => {
  const inputs = [{ name: 'x', datatype: 'UINT8', shape: [-1] }];
  expect(inputsFor({ name: 'm', inputs }, { x: Buffer.of(1, 2) })).toMatchObject([{ shape: [2] }]);
});

it.each<[string, Record<string, InputValue>, ...string[]]>([
  [
    'all problems at once',
    { imagee: [1] },
    'imagee: the model has no such input; allowed: image, label\n    -> did you mean "image"?',
    'image: this input is missing; allowed: FP32 [-1, 2, 2]',
    'label: this input is missing; allowed: BYTES [-1, 1]',
  ],
  ['another shape', { image: [[1, 2]], ...LABEL }, 'image: got shape [1, 2]; allowed: FP32 [-1, 2, 2]'],
  [
    'another type',
    { image: Float64Array.of(1, 2, 3, 4), ...LABEL },
    'image: got a Float64Array; FP32 needs a Float32Array; allowed: FP32 [-1, 2, 2]',
  ],
  [
    'elements that do not fill the shape',
    { image: Float32Array.of(1, 2, 3), ...LABEL },
    'image: 3 elements do not determine its shape: pass { data, shape }; allowed: FP32 [-1, 2, 2]',
  ],
  [
    'a shape that the elements do not fill',
    { image: { data: Float32Array.of(1), shape: [1, 2, 2] }, ...LABEL },
    'image: got 1 elements for shape [1, 2, 2]; allowed: FP32 [-1, 2, 2]',
  ],
])('inputsFor reports %s with the allowed values', (_, values, ...problems) => {
  expect(getProblems(values)).toEqual(problems);
});

describe('TritonModel', () => {
  let sent: { inputs: readonly Tensor[]; version: number | undefined }[];
  const rowsAnswer = (inputs: readonly Tensor[]): Tensor => ({ ...(inputs[0] as Tensor), name: 'y' });

  /** Answers with its first input. */
  const getClient = (config: object): InferenceClient =>
    ({
      modelMetadata: () => Promise.resolve(METADATA),
      modelConfig: () => Promise.resolve(config),
      infer: (model: string, inputs: readonly Tensor[], options: { version?: number }) => {
        sent.push({ inputs, version: options.version });
        return Promise.resolve({ model, version: '1', requestId: '', outputs: [rowsAnswer(inputs)] });
      },
    }) as unknown as InferenceClient;
  beforeEach(() => {
    sent = [];
  });

  const rows = (count: number): Record<string, InputValue> => ({
    image: Float32Array.from({ length: count * 4 }, (_, i) => i),
    label: Array.from({ length: count }, (_, i) => [String(i)]),
  });

  it('splits a batch into requests of max_batch_size rows, and joins the answers in order', async () => {
    const model = await TritonModel.open(getClient({ max_batch_size: 2 }), 'm', { version: 3 });
    const { outputs } = await model.infer(rows(5));
    expect(sent.map(({ inputs, version }) => [inputs.map(({ shape }) => shape[0]), version])).toEqual([
      [[2, 2], 3],
      [[2, 2], 3],
      [[1, 1], 3],
    ]);
    expect(sent[2]?.inputs[1]?.data).toEqual([Buffer.from('4')]);
    expect(outputs).toEqual([
      { name: 'y', datatype: 'FP32', shape: [5, 2, 2], data: Float32Array.from({ length: 20 }, (_, i) => i) },
    ]);
  });

  it.each([
    ['of at most max_batch_size rows', { max_batch_size: 8 }],
    ['of a model without a batch axis', { max_batch_size: 0 }],
    ['of a model without max_batch_size in its configuration', {}],
  ])('sends a batch %s unchanged', async (_, config) => {
    const model = await TritonModel.open(getClient(config), 'm');
    await model.infer(rows(5));
    expect(sent).toMatchObject([{ inputs: [{ shape: [5, 2, 2] }, { shape: [5, 1] }] }]);
  });

  it('inputs omits an optional input', async () => {
    const model = await TritonModel.open(getClient({ input: [{ name: 'label', optional: true }] }), 'm');
    expect(
      model
        .inputs({
          image: [
            [
              [1, 2],
              [3, 4],
            ],
          ],
        })
        .map(({ name }) => name),
    ).toEqual(['image']);
  });

  it('rejects a batch whose inputs differ in rows', async () => {
    const model = await TritonModel.open(getClient({ max_batch_size: 2 }), 'm');
    await expect(model.infer({ ...rows(5), label: [['a']] })).rejects.toThrow(
      "tensor 'label' has 1 rows, but 'image' has 5",
    );
    expect(sent).toEqual([]);
  });
});
