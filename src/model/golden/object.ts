import { createHash } from 'node:crypto';
import { UserError } from '../../core/errors';
import { decodeTensor, encodeTensor, type DataType, type Tensor } from '../../triton/tensor';
import type { ExpectedOutput, GoldenRequest, Tolerance } from './request';

/** The entry of a release for the golden requests of a model. */
export interface ReleasedGolden {
  /** SHA-256 of the object in hexadecimal, which is also the object's name. */
  sha256: string;
  bytes: number;
  /** Number of requests in the object. */
  requests: number;
}

const FORMAT = 1;

interface StoredTensor {
  name: string;
  datatype: string;
  shape: readonly number[];
  /** Base64 of the little-endian bytes; strings of BYTES unchanged. */
  data: string | string[];
}

type StoredOutput =
  | (StoredTensor & { tolerance: Tolerance })
  | { name: string; datatype: string; classes: { index: number; label: string }[] };

interface StoredRequest extends Pick<GoldenRequest, 'name' | 'version' | 'parameters'> {
  inputs: StoredTensor[];
  outputs: StoredOutput[];
}

/** Encodes all golden requests of a model as one object. */
export function encodeGolden(requests: readonly GoldenRequest[]): { body: Buffer; golden: ReleasedGolden } {
  const stored = requests.map(({ name, version, inputs, outputs, parameters }): StoredRequest => ({
    name,
    version,
    inputs: inputs.map(storedTensor),
    outputs: outputs.map((output) =>
      'tensor' in output ? { ...storedTensor(output.tensor), tolerance: output.tolerance } : output,
    ),
    parameters,
  }));
  const body = Buffer.from(JSON.stringify({ format: FORMAT, requests: stored }));
  return { body, golden: { sha256: sha256(body), bytes: body.byteLength, requests: requests.length } };
}

/**
 * @param where source of the bytes, for the error
 * @throws UserError if the SHA-256 of the bytes is not the one that the release names
 */
export function verifyGolden(body: Buffer, golden: ReleasedGolden, where: string): void {
  const found = sha256(body);
  if (found === golden.sha256) return;
  throw new UserError(`${where} has SHA-256 ${found}, but the release records ${golden.sha256}`, {
    hint: 'publish the model again with npm run sync-models, or skip golden requests with --no-ask',
  });
}

/**
 * Verifies the bytes of such an object and returns its requests.
 * @param where source of the bytes, for the error
 */
export function decodeGolden(body: Buffer, golden: ReleasedGolden, where: string): GoldenRequest[] {
  verifyGolden(body, golden, where);
  const { format, requests } = JSON.parse(body.toString('utf8')) as { format: number; requests: StoredRequest[] };
  if (format !== FORMAT) {
    throw new UserError(`${where} has format ${format}, but this version of the tool reads format ${FORMAT}`, {
      hint: 'update this checkout',
    });
  }
  return requests.map(({ inputs, outputs, ...request }) => ({
    ...request,
    inputs: inputs.map(readTensor),
    outputs: outputs.map((output): ExpectedOutput =>
      'classes' in output
        ? { name: output.name, datatype: output.datatype as DataType, classes: output.classes }
        : { name: output.name, tensor: readTensor(output), tolerance: output.tolerance },
    ),
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

const sha256 = (body: Buffer): string => createHash('sha256').update(body).digest('hex');
