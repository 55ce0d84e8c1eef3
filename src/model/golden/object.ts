import { UserError } from '../../core/errors';
import { decodeTensor, encodeTensor, type Tensor } from '../../triton/tensor';
import type { GoldenRequest, Tolerance } from './request';

const FORMAT = 1;

interface StoredTensor {
  name: string;
  datatype: string;
  shape: readonly number[];
  /** Base64 of the little-endian bytes; strings of BYTES unchanged. */
  data: string | string[];
}

interface StoredRequest extends Pick<GoldenRequest, 'name' | 'version' | 'parameters'> {
  inputs: StoredTensor[];
  outputs: (StoredTensor & { tolerance: Tolerance })[];
}

/** Encodes all golden requests of a model as one object. */
export function encodeGolden(requests: readonly GoldenRequest[]): Buffer {
  const stored = requests.map(({ name, version, inputs, outputs, parameters }): StoredRequest => ({
    name,
    version,
    inputs: inputs.map(storedTensor),
    outputs: outputs.map(({ tensor, tolerance }) => ({ ...storedTensor(tensor), tolerance })),
    parameters,
  }));
  return Buffer.from(JSON.stringify({ format: FORMAT, requests: stored }));
}

/**
 * The requests of such an object.
 * @param where source of the bytes, for the error
 */
export function decodeGolden(body: Buffer, where: string): GoldenRequest[] {
  const { format, requests } = JSON.parse(body.toString('utf8')) as { format: number; requests: StoredRequest[] };
  if (format !== FORMAT) {
    throw new UserError(`${where} has format ${format}, but this version of the tool reads format ${FORMAT}`, {
      hint: 'update this checkout',
    });
  }
  return requests.map(({ inputs, outputs, ...request }) => ({
    ...request,
    inputs: inputs.map(readTensor),
    outputs: outputs.map((output) => ({ name: output.name, tensor: readTensor(output), tolerance: output.tolerance })),
  }));
}

function storedTensor(tensor: Tensor): StoredTensor {
  const { name, datatype, shape } = tensor;
  const data =
    tensor.datatype === 'BYTES'
      ? tensor.data.map((element) => element.toString('utf8'))
      : encodeTensor(tensor).toString('base64');
  return { name, datatype, shape, data };
}

function readTensor({ name, datatype, shape, data }: StoredTensor): Tensor {
  if (typeof data === 'string') return decodeTensor(name, datatype, shape, Buffer.from(data, 'base64'));
  return { name, datatype: 'BYTES', shape, data: data.map((element) => Buffer.from(element)) };
}
