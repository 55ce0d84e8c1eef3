import { adviceFor, readRepository } from '../../../src/model';
import { adaptModels, adaptToThisMachine } from '../../../src/local/adapt-model';
import { folder, MODEL_REPO, modelYaml, removeFolders } from '../../support/model-files';

afterEach(removeFolders);

const inputs = { input__0: { data_type: 'TYPE_FP32', dims: [3, 4, 4], zero_data: true } };
const OPTIMIZER_OFF = { DISABLE_OPTIMIZED_EXECUTION: { string_value: 'true' } };
const warm = (count: number, ...sizes: number[]): object[] =>
  sizes.map((size) => ({ name: `batch_${size}`, batch_size: size, count, inputs }));

async function model(fields: Record<string, unknown>) {
  const root = folder({ 'm/model.yaml': modelYaml({ dynamic_batching: {}, max_batch_size: 4, ...fields }) });
  const { models } = await readRepository(root, { artifacts: false });
  const [first] = models;
  if (first === undefined) throw new Error('the model was not read');
  return first;
}

describe('adviceFor names the batch sizes that are not warmed up', () => {
  it.each([
    ['no warm-up', {}, '1, 2, 3, 4'],
    ['one size', { model_warmup: warm(2, 1) }, '2, 3, 4'],
    ['gaps', { model_warmup: warm(2, 2) }, '1, 3, 4'],
    ['one call each', { model_warmup: warm(1, 1, 2, 3, 4) }, '1, 2, 3, 4'],
    ['every size', { model_warmup: warm(2, 1, 2, 3, 4) }, undefined],
    ['batches of one', { max_batch_size: 1, model_warmup: warm(2, 1) }, undefined],
    ['no optimiser', { parameters: OPTIMIZER_OFF }, undefined],
    ['ONNX', { platform: 'onnxruntime_onnx' }, undefined],
  ])('%s', async (_, fields, sizes) => {
    const messages = adviceFor(await model(fields)).map(({ message }) => message);
    expect(messages).toEqual(
      sizes === undefined ? [] : [expect.stringContaining(`lacks two calls of batch size ${sizes}, so `)],
    );
  });

  it('has none for the models that ship', async () => {
    const { models } = await readRepository(MODEL_REPO, { artifacts: false });
    expect(models.flatMap(adviceFor)).toEqual([]);
  });
});

test.each<[string, object, string[]]>([
  ['requests that are not joined', { parameters: OPTIMIZER_OFF }, ['is missing, so requests that wait at the same']],
  ['single requests', { parameters: OPTIMIZER_OFF, max_batch_size: 1 }, []],
  ['sequences', { parameters: OPTIMIZER_OFF, sequence_batching: {} }, []],
  ['ONNX, for which the backend adds the batcher', { platform: 'onnxruntime_onnx' }, []],
  ['no warm-up', { max_batch_size: 0 }, ['lacks two calls, so the first requests of each shape wait']],
  ['one warm-up', { max_batch_size: 0, model_warmup: warm(2, 1) }, []],
])('adviceFor without dynamic_batching: %s', async (_, fields, messages) => {
  const advice = adviceFor(await model({ dynamic_batching: undefined, ...fields }));
  expect(advice.map(({ message }) => message)).toEqual(messages.map((text) => expect.stringContaining(text) as string));
});

test.each([
  ['tensor_rt', ['is not a backend of Triton, got "tensor_rt"']],
  ['python', []],
  ['my_own', []],
])('adviceFor names a misspelt backend: %s', async (backend, messages) => {
  const root = folder({ 'm/config.pbtxt': `backend: "${backend}"\nmax_batch_size: 0\n`, 'm/1/model.py': '' });
  const { models } = await readRepository(root);
  expect(models.flatMap(adviceFor).map(({ message }) => message)).toEqual(messages);
});

test('adviceFor names golden requests whose expected outputs have no elements', async () => {
  const tensor = (name: string, shape: number[], values: number): object => ({
    name,
    shape,
    data: Array.from({ length: values }, () => 1),
  });
  const request = (rows: number): string =>
    JSON.stringify({ inputs: [tensor('x', [2], 2)], outputs: [tensor('y', [rows, 4], rows * 4)] });
  const fields = {
    max_batch_size: 0,
    platform: 'onnxruntime_onnx',
    input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [2] }],
    output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [-1, 4] }],
  };
  const root = folder({
    'm/model.yaml': modelYaml(fields),
    'm/1/model.onnx': '',
    'm/golden/nothing.json': request(0),
    'm/golden/found.json': request(1),
  });
  const { models } = await readRepository(root);
  expect(models.flatMap(adviceFor)).toEqual([
    {
      file: 'm/golden/nothing.json',
      message: 'expects only outputs without elements, so no value of the answer is compared',
      hint: 'add a golden request for which the model finds something',
    },
  ]);
});

describe('adaptToThisMachine', () => {
  it('leaves out models that this machine does not serve', async () => {
    const left: string[] = [];
    const models = [
      { ...(await model({})), name: 'served' },
      { ...(await model({ platform: 'tensorrt_plan' })), name: 'plan' },
    ];
    const served = adaptModels(models, (name, reason) => left.push(`${name}: ${reason}`));
    expect(served.map(({ name }) => name)).toEqual(['served']);
    expect(left).toEqual(['plan: a TensorRT plan runs only on the GPU type that built it']);
  });

  it('moves instances of GPUs to the CPU', async () => {
    const groups = [{ kind: 'KIND_GPU', count: 2, gpus: [0, 1] }, { kind: 'KIND_AUTO', count: 2 }, { gpus: [0] }];
    const { config } = adaptToThisMachine(await model({ backend: 'python', instance_group: groups }));
    expect(config.instance_group).toEqual([
      { kind: 'KIND_CPU', count: 1 },
      { kind: 'KIND_AUTO', count: 1 },
      { kind: 'KIND_CPU', count: 1 },
    ]);
  });

  it('keeps one request of each shape, in configuration and text', async () => {
    const other = { ...warm(2, 1)[0], inputs: { input__0: { ...inputs.input__0, random_data: true } } };
    const short = adaptToThisMachine(await model({ model_warmup: [...warm(2, 1, 2), other, ...warm(2, 4)] }));
    const kept = await model({ model_warmup: [...warm(2, 1), other].map((sample) => ({ ...sample, count: 1 })) });
    expect([short.config, short.configText]).toEqual([kept.config, kept.configText]);
  });

  it('keeps one instance of a model whose backend runs each in a process, and all of others', async () => {
    const group = (count: number): Record<string, unknown> => ({ instance_group: [{ kind: 'KIND_CPU', count }] });
    const [two, one] = await Promise.all([model(group(2)), model(group(1))]);
    expect(adaptToThisMachine(two).configText).toBe(one.configText);
    const python = { ...two, platform: 'python' };
    expect(adaptToThisMachine(python)).toBe(python);
  });

  it('leaves a model with one request as it is', async () => {
    const one = await model({ model_warmup: warm(2, 1).map((sample) => ({ ...sample, count: 1 })) });
    expect(adaptToThisMachine(one)).toBe(one);
  });
});
