import { join } from 'node:path';
import { exec } from '../../src/core/exec';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/install/python';
import { DATA_TYPES, type DataType, type Tensor, type TensorData } from '../../src/triton/tensor';
import { writeRepository } from './repository';

/** The types that NVIDIA's PyTorch backend converts, except BYTES. */
export const NUMERIC_TYPES = ['BOOL', 'UINT8', 'INT8', 'INT16', 'INT32', 'INT64', 'FP16', 'FP32', 'FP64'] as const;
type NumericType = (typeof NUMERIC_TYPES)[number];

const CPU = 'instance_group { count: 1 kind: KIND_CPU }';

function tensorText(kind: 'input' | 'output', name: string, type: DataType, dims: string, more = ''): string {
  return `${kind} { name: "${name}" data_type: ${DATA_TYPES[type].configName} dims: [${dims}] ${more} }`;
}

/** A model whose outputs are its inputs. */
const ECHO = `class TritonPythonModel:
    def execute(self, requests):
        import triton_python_backend_utils as pb_utils
        return [pb_utils.InferenceResponse(request.inputs()) for request in requests]
`;

/** test/support/client_models.py writes the model.pt files. */
export const REPOSITORY = {
  'every_type/config.pbtxt': [
    'platform: "pytorch_libtorch"',
    // Not in the order of their numbers, because only the numbers map them to arguments and results.
    ...NUMERIC_TYPES.map((type, i) => tensorText('input', `input__${i}`, type, '-1')).reverse(),
    ...NUMERIC_TYPES.map((_, i) => tensorText('output', `output__${i + NUMERIC_TYPES.length}`, 'FP64', '-1')),
    ...NUMERIC_TYPES.map((type, i) => tensorText('output', `output__${i}`, type, '-1')),
    CPU,
  ].join('\n'),

  'divide/config.pbtxt': [
    'platform: "pytorch_libtorch"',
    // The names of forward's arguments, in reverse order.
    tensorText('input', 'divisor', 'FP32', '-1, 2'),
    tensorText('input', 'dividend', 'FP32', '-1, 2'),
    tensorText('output', 'difference', 'FP32', '-1, 2'),
    tensorText('output', 'quotient', 'FP32', '-1, 2'),
    'version_policy { specific { versions: [1, 2] } }',
    CPU,
  ].join('\n'),

  'scores/config.pbtxt': [
    'platform: "pytorch_libtorch"',
    'max_batch_size: 8',
    tensorText('input', 'input__0', 'FP32', '3'),
    tensorText('output', 'output__0', 'FP32', '3', 'label_filename: "labels.txt"'),
    CPU,
  ].join('\n'),
  'scores/labels.txt': 'cat\ndog\nzebra: striped\n',

  // The queue rejects every request that waits, and each request waits for a moment (see the test).
  'strings/config.pbtxt': [
    'backend: "python"',
    'max_batch_size: 8',
    tensorText('input', 'text', 'BYTES', '-1'),
    tensorText('output', 'text', 'BYTES', '-1'),
    'dynamic_batching { max_queue_delay_microseconds: 100000 default_queue_policy { default_timeout_microseconds: 1 } }',
    CPU,
  ].join('\n'),
  'strings/1/model.py': ECHO,
};

export async function writeClientModels(folder: string): Promise<void> {
  writeRepository(folder, REPOSITORY);
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  await exec(python, [join(__dirname, 'client_models.py'), folder]);
}

export function floats(name: string, shape: readonly number[], ...values: number[]): Tensor {
  return { name, datatype: 'FP32', shape, data: Float32Array.from(values) };
}

export function strings(name: string, ...values: (string | Buffer)[]): Tensor {
  return { name, datatype: 'BYTES', shape: [values.length], data: values.map((value) => Buffer.from(value)) };
}

/** Inputs of divide. */
export const DIVIDEND = floats('dividend', [2, 2], 7, 8, -9, 10);
export const DIVISOR = floats('divisor', [2, 2], 2, 4, 2, 5);
export const DIFFERENCE = floats('difference', [2, 2], 5, 4, -11, 5);
export const QUOTIENT = floats('quotient', [2, 2], 3.5, 2, -4.5, 2);

/** Characteristic values of each type: minimum, maximum, smallest step, infinity and NaN. */
export const VALUES: { [T in NumericType]: TensorData[T] } = {
  BOOL: Uint8Array.of(0, 1, 1),
  UINT8: Uint8Array.of(0, 1, 255),
  INT8: Int8Array.of(-128, -1, 127),
  INT16: Int16Array.of(-32_768, -258, 32_767),
  INT32: Int32Array.of(-2_147_483_648, -16_909_060, 2_147_483_647),
  INT64: BigInt64Array.of(-(2n ** 63n), -72_623_859_790_382_856n, 2n ** 63n - 1n),
  FP16: Float32Array.of(-65_504, 2 ** -24, -0, 1 + 2 ** -10, Infinity, NaN),
  FP32: Float32Array.of(-(2 ** 128 - 2 ** 104), 2 ** -149, -0, 1 + 2 ** -23, Infinity, NaN),
  FP64: Float64Array.of(-Number.MAX_VALUE, Number.MIN_VALUE, -0, 1 + Number.EPSILON, Infinity, NaN),
};

/** The inputs of every_type; their lengths may differ. */
export function everyType(values: (type: NumericType) => TensorData[NumericType]): Tensor[] {
  return NUMERIC_TYPES.map((type, i) => {
    const data = values(type);
    return { name: `input__${i}`, datatype: type, shape: [data.length], data } as Tensor;
  });
}
