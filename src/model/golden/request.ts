import type { DataType, Tensor } from '../../triton/tensor';

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

/** The class with the highest expected value in a row. */
export interface ExpectedClass {
  index: number;
  /** Its label, or its index as text. */
  label: string;
}

/** An expected output, given by its values or by the highest class of each row. */
export type ExpectedOutput =
  | { name: string; tensor: Tensor; tolerance: Tolerance }
  | { name: string; datatype: DataType; classes: ExpectedClass[] };

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
  outputs.every((output) => 'tensor' in output && output.tensor.data.length === 0);
