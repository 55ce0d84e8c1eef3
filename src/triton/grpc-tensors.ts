import protobuf from 'protobufjs/light';
import type { InferOptions, InferResult } from './client';
import protocol from './protocol.json';
import { decodeTensor, encodeTensor, type Tensor } from './tensor';

export const SERVICE = 'inference.GRPCInferenceService';
const service = protobuf.Root.fromJSON(protocol).resolveAll().lookupService(SERVICE);

/** Tag of ModelInferRequest.raw_input_contents: field 7, length-delimited. */
const RAW_INPUT_TAG = (7 << 3) | 2;

type Parameter =
  { bool_param: boolean } | { int64_param: number } | { double_param: number } | { string_param: string };

function getTypes(name: string): { resolvedRequestType: protobuf.Type; resolvedResponseType: protobuf.Type } {
  const { resolvedRequestType, resolvedResponseType } = service.methods[name] ?? {};
  if (!resolvedRequestType || !resolvedResponseType) throw new Error(`${SERVICE} has no method ${name}`);
  return { resolvedRequestType, resolvedResponseType };
}

const METHODS = new Map(Object.keys(service.methods).map((name) => [name, getTypes(name)]));
const methodTypes = (name: string) => METHODS.get(name) ?? getTypes(name);

/** @param message with the protocol's field names */
export function encodeRequest(method: string, message: Record<string, unknown>): Buffer {
  const { resolvedRequestType: type } = methodTypes(method);
  return Buffer.from(type.encode(type.fromObject(message)).finish());
}

/** @throws Error if the bytes are not such a message */
export function decodeAnswer(method: string, bytes: Buffer): unknown {
  const { resolvedResponseType: type } = methodTypes(method);
  return type.toObject(type.decode(bytes), { longs: Number, enums: String, defaults: true });
}

/** A ModelInferRequest in parts. The tensors' bytes come last, so they are sent without joining them to the rest. */
export function inferRequest(model: string, inputs: readonly Tensor[], options: InferOptions): Buffer[] {
  const data = inputs.map(encodeTensor);
  const message = encodeRequest('ModelInfer', {
    model_name: model,
    model_version: options.version === undefined ? '' : String(options.version),
    id: options.requestId ?? '',
    parameters: Object.fromEntries(
      Object.entries(options.parameters ?? {}).map(([name, value]) => [name, parameter(value)]),
    ),
    inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
    outputs: (options.outputs ?? []).map(({ name, classification }) => ({
      name,
      parameters: classification === undefined ? {} : { classification: { int64_param: classification } },
    })),
  });
  return [message, ...data.flatMap((bytes) => [lengthPrefix(bytes.length), bytes])];
}

function parameter(value: string | number | boolean): Parameter {
  if (typeof value === 'boolean') return { bool_param: value };
  if (typeof value === 'string') return { string_param: value };
  return Number.isInteger(value) ? { int64_param: value } : { double_param: value };
}

/**
 * Tag and length, the length as a varint: seven bits per byte, lowest first, with the top bit set if more bytes follow.
 */
function lengthPrefix(length: number): Buffer {
  const bytes = [RAW_INPUT_TAG];
  let left = length;
  for (; left > 127; left = Math.floor(left / 128)) bytes.push((left % 128) | 128);
  return Buffer.from([...bytes, left]);
}

/** The fields of a ModelInferResponse that are used. */
export interface InferAnswer {
  model_name: string;
  model_version: string;
  id: string;
  parameters: Record<string, { bool_param?: boolean }>;
  outputs: { name: string; datatype: string; shape: number[] }[];
  raw_output_contents: Buffer[];
}

/** @throws UserError if the bytes do not fit the types and shapes */
export function inferResult(answer: InferAnswer): InferResult {
  const outputs = answer.outputs.map(({ name, datatype, shape }, i) =>
    decodeTensor(name, datatype, shape, answer.raw_output_contents[i] ?? Buffer.alloc(0)),
  );
  return { model: answer.model_name, version: answer.model_version, requestId: answer.id, outputs };
}
