import type { Nested } from './nested';
import type { DataType, Tensor, TensorData } from './tensor';

/** Data types of a model's inputs and outputs by name, for the compiler. */
export interface ModelTypes {
  readonly inputs: Readonly<Record<string, DataType>>;
  /** Optional inputs. */
  readonly optional?: Readonly<Record<string, DataType>>;
  readonly outputs: Readonly<Record<string, DataType>>;
}

export type TensorOf<T extends DataType> = Extract<Tensor, { datatype: T }>;

/**
 * Value of an input: nested arrays, whose nesting is the shape; or the elements in C order, with their shape if the
 * model has more than one variable length.
 */
export type InputValue = Nested | TensorData[DataType] | { data: TensorData[DataType]; shape: readonly number[] };

/** Value of an input of one data type. */
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

/** The inputs of a request. If the types of the model are known, the compiler checks the names and values. */
export type InputsOf<Model extends ModelTypes> = string extends keyof Model['inputs']
  ? Readonly<Record<string, InputValue>>
  : InputsByName<Model['inputs']> &
      (Model extends { optional: infer Optional } ? Partial<InputsByName<Optional>> : unknown);
