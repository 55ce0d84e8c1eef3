import type { ModelConfig, TensorConfig } from '../model-config';
import { DATA_TYPES, type DataType } from '../../triton/tensor';

/** The data type by its name in requests; undefined for an unknown data type. */
export function getDataType({ data_type: type }: Pick<TensorConfig, 'data_type'>): DataType | undefined {
  return (Object.keys(DATA_TYPES) as DataType[]).find((known) => DATA_TYPES[known].configName === type);
}

/** Whether requests and answers have a batch axis. */
export const hasBatchAxis = ({ max_batch_size: most = 0 }: Pick<ModelConfig, 'max_batch_size'>): boolean => most > 0;

/** The shape that a tensor has in a request, for messages and comparisons: `[-1, 3, 224, 224]`. */
export function requestShape(config: Pick<ModelConfig, 'max_batch_size'>, { dims = [] }: TensorConfig): number[] {
  return [...(hasBatchAxis(config) ? [-1] : []), ...dims];
}

/** Whether a tensor may have this shape; -1 is any length. */
export function fitsShape(shape: readonly number[], wanted: readonly number[]): boolean {
  return shape.length === wanted.length && wanted.every((length, i) => length === -1 || length === shape[i]);
}
