import type { Nested } from './nested';
import type { DataType, Tensor, TensorData } from './tensor';

/**
 * What a model's inputs and outputs are, for the compiler: data types by name. `npm run infer -- --types FILE` writes
 * such types of a server's models.
 */
export interface ModelTypes {
  readonly inputs: Readonly<Record<string, DataType>>;
  /** Inputs that may be left out. */
  readonly optional?: Readonly<Record<string, DataType>>;
  readonly outputs: Readonly<Record<string, DataType>>;
}

/** The tensors of one data type. */
export type TensorOf<T extends DataType> = Extract<Tensor, { datatype: T }>;

/**
 * What an input is given as: nested arrays, whose nesting is the shape; or the elements in C order, with their shape
 * where the model leaves more than one length open.
 */
export type InputValue = Nested | TensorData[DataType] | { data: TensorData[DataType]; shape: readonly number[] };

/** The same, of one data type. */
export type InputOf<T extends DataType> = T extends DataType
  ? Rows<ElementOf<T>> | TensorData[T] | { data: TensorData[T]; shape: readonly number[] }
  : never;

type Rows<Element> = Element | readonly Rows<Element>[];

/** One element in nested arrays. */
type ElementOf<T extends DataType> = T extends 'BYTES'
  ? string | Buffer
  : T extends 'BOOL'
    ? boolean | 0 | 1
    : T extends 'INT64' | 'UINT64'
      ? number | bigint
      : number;

type InputsByName<Types> = {
  readonly [Name in keyof Types]: Types[Name] extends DataType ? InputOf<Types[Name]> : never;
};

/** The inputs of a request: those of the model, where its types are known. */
export type InputsOf<Model extends ModelTypes> = string extends keyof Model['inputs']
  ? Readonly<Record<string, InputValue>>
  : InputsByName<Model['inputs']> &
      (Model extends { optional: infer Optional } ? Partial<InputsByName<Optional>> : unknown);
