import { UserError } from '../../core/errors';
import type { ModelConfig } from '../model-config';
import { zeroTensor, type Tensor } from '../../triton/tensor';
import { getDataType, fitsShape, hasBatchAxis, requestShape } from './request';

/** The configuration fields that a zero request needs, from our configuration or from one that a server completed. */
export type RequestConfig = Pick<ModelConfig, 'max_batch_size' | 'input' | 'output' | 'batch_output'>;

/**
 * Makes the request for a model without golden requests. Every input that is not optional gets zeros or empty strings.
 * A batch has one row, and variable sizes are 1.
 * @throws UserError if the configuration has a data type that Triton does not have
 */
export function zeroInputs(config: RequestConfig): Tensor[] {
  const inputs = (config.input ?? []).filter(({ optional }) => optional !== true);
  return inputs.map((input) => {
    const { name = '', data_type: type } = input;
    const datatype = getDataType(input);
    if (datatype === undefined)
      throw new UserError(`input ${name} has data type ${type ?? 'nothing'}, which Triton does not have`);
    const shape = requestShape(config, input).map((length) => (length === -1 ? 1 : length));
    return zeroTensor(name, datatype, shape);
  });
}

/** Describes how an answer contradicts the configuration: missing output, other data type, or other shape. */
export function contradiction(config: RequestConfig, answer: readonly Tensor[]): string | undefined {
  for (const output of config.output ?? []) {
    const { name = '' } = output;
    const received = answer.find((tensor) => tensor.name === name);
    if (received === undefined) return `output ${name} is missing from the answer`;
    const datatype = getDataType(output);
    if (received.datatype !== datatype) {
      return `output ${name} has data type ${received.datatype}, but the configuration has ${datatype ?? 'nothing'}`;
    }
    const wanted = requestShape(config, output);
    // A batch_output may have a different number of rows than the request.
    if (hasBatchAxis(config) && (config.batch_output ?? []).length === 0) wanted[0] = 1;
    if (fitsShape(received.shape, wanted)) continue;
    return `output ${name} has shape [${received.shape.join(', ')}], but the configuration has [${wanted.join(', ')}]`;
  }
  return undefined;
}
