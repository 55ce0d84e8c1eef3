import { joinRows, sliceRows, zeroTensor, type Tensor } from '../../triton/tensor';
import type { ModelConfig } from '../model-config';
import { withRounding } from './compare';
import type { GoldenRequest } from './request';

/** A request of other rows than a golden request, with the known answer to one of its rows. */
export interface RowProbe {
  /** `beside another row`, for messages. */
  where: string;
  inputs: Tensor[];
  /** The row of the answer that is compared. */
  row: number;
  expected: GoldenRequest;
  /** Whether an answer makes the other probes needless. */
  isEnough?: true;
}

/** Fields that decide whether a request may have other rows. */
type BatchConfig = Pick<ModelConfig, 'max_batch_size' | 'input' | 'batch_input' | 'batch_output'>;

/**
 * Requests that show whether a model mixes the rows of a batch. Triton joins requests of different clients into one batch,
 * so the answer to a row must not depend on other rows. Only the last one must be answered: a changed row may be invalid.
 * @returns an empty list if the model has no batches, or no golden request with a row of its own
 */
export function rowProbes(requests: readonly GoldenRequest[], config: BatchConfig): RowProbe[] {
  const { max_batch_size: most = 0, batch_input: joined = [], batch_output: split = [], input = [] } = config;
  if (most < 2 || joined.length + split.length > 0 || input.some((one) => one.is_shape_tensor === true)) return [];
  const [request, ...others] = requests.filter(hasRows);
  if (request === undefined) return [];
  const expected = expectedRow(request);
  const own = request.inputs.map((tensor) => sliceRows(tensor, 0, 1));
  const beside = (neighbour: readonly Tensor[], where: string): RowProbe => ({
    where,
    // Second, because a model that copies the first row to all others would answer it rightly.
    inputs: own.map((tensor, i) => joinRows([neighbour[i] as Tensor, tensor])),
    row: 1,
    expected,
  });
  const other = others.find((one) => !isSame(one.inputs, request.inputs) && haveSameRows(one.inputs, request.inputs));
  if (other !== undefined) {
    return [
      beside(
        other.inputs.map((tensor) => sliceRows(tensor, 0, 1)),
        `beside a row of ${other.name}`,
      ),
    ];
  }
  if ((request.inputs[0]?.shape[0] ?? 0) > 1) return [{ where: 'alone', inputs: own, row: 0, expected }];
  // Valid for most models, and changes sum and mean over the batch.
  const reversed = own.map(reverse);
  if (!isSame(reversed, own)) {
    return [
      { ...beside(reversed, 'beside the same elements in reverse order'), isEnough: true },
      beside(own, 'beside the same row'),
    ];
  }
  const zeros = own.map(({ name, datatype, shape }) => zeroTensor(name, datatype, shape));
  // Zeros leave a sum over the batch as it is, and the same row leaves a mean.
  return [beside(zeros, 'beside a row of zeros'), beside(own, 'beside the same row')];
}

const reverse = (tensor: Tensor): Tensor => ({ ...tensor, data: tensor.data.slice().reverse() }) as Tensor;

/** The row of the answer to a probe; undefined for outputs without rows. */
export const answeredRow = ({ row }: RowProbe, answer: readonly Tensor[]): Tensor[] =>
  answer.map((tensor) => ((tensor.shape[0] ?? 0) > row ? sliceRows(tensor, row, row + 1) : tensor));

function hasRows({ inputs, outputs }: GoldenRequest): boolean {
  const [rows = 0] = inputs[0]?.shape ?? [];
  return (
    rows > 0 &&
    inputs.every(({ shape }) => shape[0] === rows) &&
    outputs.every(({ tensor }) => tensor.shape[0] === rows)
  );
}

/** The first row of the expected answer. */
function expectedRow(request: GoldenRequest): GoldenRequest {
  const outputs = request.outputs.map((output) => ({ ...output, tensor: sliceRows(output.tensor, 0, 1) }));
  return { ...request, outputs: withRounding(outputs) };
}

const isSame = (one: readonly Tensor[], other: readonly Tensor[]): boolean =>
  one.every(({ name, data }) => other.some((tensor) => tensor.name === name && String(tensor.data) === String(data)));

const haveSameRows = (one: readonly Tensor[], other: readonly Tensor[]): boolean =>
  one.length === other.length &&
  one.every((tensor, i) => {
    const like = other[i];
    return like?.name === tensor.name && String(like.shape.slice(1)) === String(tensor.shape.slice(1));
  });
