import { UserError } from '../../core/errors';
import type { ModelConfig } from '../model-config';
import { zeroTensor, type Tensor } from '../../triton/tensor';
import { dataTypeOf, fitsShape, hasBatchAxis, requestShape } from './shapes';

/** What a zero request needs of a configuration, ours or one that a server completed. */
export type RequestConfig = Pick<ModelConfig, 'max_batch_size' | 'input' | 'output' | 'batch_output'>;

/**
 * The request for a model without golden requests: zeros, or empty strings, in every input that is not optional; one
 * row; a length that may be anything is 1.
 * @throws UserError where the configuration has a data type that Triton does not have
 */
export function zeroInputs(config: RequestConfig): Tensor[] {
  const inputs = (config.input ?? []).filter(({ optional }) => optional !== true);
  return inputs.map((input) => {
    const { name = '', data_type: type } = input;
    const datatype = dataTypeOf(input);
    if (datatype === undefined) throw new UserError(`${type ?? 'no type'} of ${name} is not a data type of Triton's`);
    const shape = requestShape(config, input).map((length) => (length === -1 ? 1 : length));
    return zeroTensor(name, datatype, shape);
  });
}

/** How an answer contradicts the configuration: a missing output, another data type, another shape. */
export function contradiction(config: RequestConfig, answer: readonly Tensor[]): string | undefined {
  for (const output of config.output ?? []) {
    const { name = '' } = output;
    const received = answer.find((tensor) => tensor.name === name);
    if (received === undefined) return `output ${name} is missing from the answer`;
    const datatype = dataTypeOf(output);
    if (received.datatype !== datatype) {
      return `output ${name} has data type ${received.datatype}, and the configuration says ${datatype ?? 'nothing'}`;
    }
    const wanted = requestShape(config, output);
    // A batch_output may have another number of rows than the request.
    if (hasBatchAxis(config) && (config.batch_output ?? []).length === 0) wanted[0] = 1;
    if (fitsShape(received.shape, wanted)) continue;
    return `output ${name} has shape [${received.shape.join(', ')}], and the configuration says [${wanted.join(', ')}]`;
  }
  return undefined;
}
