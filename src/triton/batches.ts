import { UserError } from '../core/errors';
import { forEachLimited } from '../core/concurrency';
import type { InferenceClient, InferOptions, InferResult } from './client';
import { DATA_TYPES, elementCount, type Tensor } from './tensor';

/** Parts of one batch in flight at a time: the server computes one while the next one is sent. */
const PARTS_AT_ONCE = 2;

/**
 * Sends a request. If its batch has more rows than the model accepts, splits it and joins the answers.
 * @param maxBatchSize most rows of one request; 0 for a model without a batch axis, whose requests are sent unchanged
 */
export async function inferInBatches(
  client: InferenceClient,
  model: string,
  inputs: readonly Tensor[],
  maxBatchSize: number,
  options: InferOptions = {},
): Promise<InferResult> {
  const rows = inputs[0]?.shape[0] ?? 0;
  if (maxBatchSize === 0 || rows <= maxBatchSize) return client.infer(model, inputs, options);
  for (const { name, shape } of inputs) {
    if (shape[0] !== rows) {
      throw new UserError(`tensor '${name}' has ${shape[0]} rows, but '${inputs[0]?.name}' has ${rows}`);
    }
  }
  const results: InferResult[] = [];
  const starts = Array.from({ length: Math.ceil(rows / maxBatchSize) }, (_, i) => i * maxBatchSize);
  await forEachLimited(starts, PARTS_AT_ONCE, async (start) => {
    const part = inputs.map((input) => sliceRows(input, start, Math.min(start + maxBatchSize, rows)));
    results[start / maxBatchSize] = await client.infer(model, part, options);
  });
  const [first] = results as [InferResult];
  return {
    ...first,
    outputs: first.outputs.map((_, i) => joinRows(results.map(({ outputs }) => outputs[i] as Tensor))),
  };
}

/** Rows of a batch, without copying elements. */
export function sliceRows(tensor: Tensor, start: number, end: number): Tensor {
  const size = elementCount(tensor.shape.slice(1));
  const cut = (from: number, to: number) =>
    Array.isArray(tensor.data) ? tensor.data.slice(from, to) : (tensor.data as Uint8Array).subarray(from, to);
  return { ...tensor, shape: [end - start, ...tensor.shape.slice(1)], data: cut(start * size, end * size) } as Tensor;
}

/**
 * Joins batches into one, row after row.
 * @throws UserError if the batches differ in more than the number of rows
 */
export function joinRows(parts: readonly Tensor[]): Tensor {
  const [first, ...others] = parts as [Tensor, ...Tensor[]];
  for (const { name, datatype, shape } of others) {
    if (name !== first.name || datatype !== first.datatype || String(shape.slice(1)) !== String(first.shape.slice(1))) {
      throw new UserError(
        `the parts of a batch cannot be joined: '${first.name}' ${first.datatype} [${first.shape.join(', ')}] and '${name}' ${datatype} [${shape.join(', ')}]`,
      );
    }
  }
  const rows = parts.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  const shape = [rows, ...first.shape.slice(1)];
  if (first.datatype === 'BYTES') {
    return { ...first, shape, data: parts.flatMap(({ data }) => data as readonly Buffer[]) };
  }
  const data = new DATA_TYPES[first.datatype].ArrayType(elementCount(shape)) as Uint8Array;
  let offset = 0;
  for (const part of parts) {
    data.set(part.data as Uint8Array, offset);
    offset += part.data.length;
  }
  return { ...first, shape, data } as Tensor;
}
