import { DATA_TYPES, type DataType, type Tensor } from '../../triton/tensor';
import type { ModelConfig, TensorConfig } from '../model-config';

/** Name of the folder with golden requests in a model folder, which is never published under the repository prefix. */
export const GOLDEN_FOLDER = 'golden';

/** A number passes when |received - expected| <= absolute + relative * |expected|. */
export interface Tolerance {
  absolute: number;
  relative: number;
}

/** Default for floating point. */
export const DEFAULT_TOLERANCE: Tolerance = { absolute: 1e-5, relative: 1e-5 };

/** Default for integers, booleans and strings. */
export const NO_TOLERANCE: Tolerance = { absolute: 0, relative: 0 };

/** An expected output. */
export interface ExpectedOutput {
  name: string;
  tensor: Tensor;
  tolerance: Tolerance;
}

/** One inference request with its expected answer. */
export interface GoldenRequest {
  /** Path of its file in the golden folder, without `.json`: `cat`, `2/traced-0`. */
  name: string;
  /** The version that the request is for; undefined for every served version. */
  version?: number;
  inputs: Tensor[];
  /** Only these outputs are requested and compared. */
  outputs: ExpectedOutput[];
  /** Request parameters of KServe v2. */
  parameters: Record<string, string | number | boolean>;
}

/** The requests that a version must answer. */
export const requestsFor = (requests: readonly GoldenRequest[], version: number): GoldenRequest[] =>
  requests.filter((request) => request.version === undefined || request.version === version);

/** Whether only data types and shapes can be compared, because no expected output has elements. */
export const comparesOnlyShapes = ({ outputs }: Pick<GoldenRequest, 'outputs'>): boolean =>
  outputs.every(({ tensor }) => tensor.data.length === 0);

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
