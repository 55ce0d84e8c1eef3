import type { IncomingHttpHeaders } from 'node:http';
import type { InferOptions, InferResult } from './client';
import { JSON_LENGTH_HEADER } from './http-transport';
import { decodeTensor, encodeTensor, type Tensor } from './tensor';

/** A request: JSON, followed by the bytes of each input (binary tensor data extension). */
export function inferRequest(
  inputs: readonly Tensor[],
  options: InferOptions,
): { jsonLength: number; parts: readonly Buffer[] } {
  const data = inputs.map(encodeTensor);
  const json = Buffer.from(
    JSON.stringify({
      id: options.requestId,
      parameters: { ...options.parameters, binary_data_output: true },
      inputs: inputs.map(({ name, datatype, shape }, i) => ({
        name,
        datatype,
        shape,
        parameters: { binary_data_size: data[i]?.length },
      })),
      outputs: options.outputs?.map(({ name, classification }) => ({
        name,
        parameters: { binary_data: true, classification },
      })),
    }),
  );
  return { jsonLength: json.length, parts: [json, ...data] };
}

interface InferAnswer {
  model_name: string;
  model_version: string;
  id?: string;
  outputs: { name: string; datatype: string; shape: number[]; parameters?: { binary_data_size?: number } }[];
}

/** @throws Error if the answer cannot be read */
export function inferResult({ headers, body }: { headers: IncomingHttpHeaders; body: Buffer }): InferResult {
  const jsonLength = Number(headers[JSON_LENGTH_HEADER.toLowerCase()] ?? body.length);
  const answer = JSON.parse(body.toString('utf8', 0, jsonLength)) as InferAnswer;
  let offset = jsonLength;
  const outputs = answer.outputs.map(({ name, datatype, shape, parameters }) => {
    const end = offset + (parameters?.binary_data_size ?? 0);
    const tensor = decodeTensor(name, datatype, shape, body.subarray(offset, end));
    offset = end;
    return tensor;
  });
  return { model: answer.model_name, version: answer.model_version, requestId: answer.id ?? '', outputs };
}
