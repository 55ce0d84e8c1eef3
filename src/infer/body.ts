import { UserError } from '../core/errors';
import { tensorFromJson } from '../triton/tensor-from-json';
import { describe, type TritonModel } from '../triton/model';
import type { InputValue } from '../triton/model-types';
import { isDataType } from '../triton/tensor';

/** The JSON body of a KServe v2 request, as sent to Triton's HTTP API with curl. */
export interface RequestBody {
  id?: string;
  parameters?: Record<string, string | number | boolean>;
  inputs: { name: string; datatype?: string; shape?: number[]; data?: unknown }[];
  outputs?: { name: string }[];
}

/** Whether a JSON value is a request body. The value of an input named `inputs` is not, because it holds no objects. */
export function isRequestBody(value: unknown): value is RequestBody {
  const { inputs } = (value ?? {}) as { inputs?: unknown };
  const isTensor = (one: unknown): boolean => typeof (one as { name?: unknown } | null)?.name === 'string';
  return Array.isArray(inputs) && inputs.length > 0 && inputs.every(isTensor);
}

/**
 * The values of the inputs in a body.
 * @throws UserError if the model has no such input, or the data does not fit the model's data type and the given shape
 */
export function bodyValues(model: TritonModel, body: RequestBody): Record<string, InputValue> {
  const values: Record<string, InputValue> = {};
  for (const { name, datatype, shape, data } of body.inputs) {
    const input = model.metadata.inputs.find((one) => one.name === name);
    const known = model.metadata.inputs.map((one) => one.name).join(', ');
    if (input === undefined || !isDataType(input.datatype)) {
      throw new UserError(`${model.name} has no input ${name}; allowed: ${known}`);
    }
    if (datatype !== undefined && datatype !== input.datatype) {
      throw new UserError(`the request has ${datatype} for input ${name}; ${model.name} takes ${describe(input)}`);
    }
    if (data === undefined)
      throw new UserError(`input ${name} has no data`, { hint: 'add "data": [...] to this input' });
    const tensor = tensorFromJson(name, input.datatype, data, shape?.map(Number));
    values[name] = { data: tensor.data, shape: tensor.shape };
  }
  return values;
}
