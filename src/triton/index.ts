/** The Triton client: everything that users import. See docs/client.md. */
export { UserError } from '../core/errors';
export {
  RequestError,
  TritonError,
  type CallOptions,
  type ClientOptions,
  type Compression,
  type InferenceClient,
  type InferOptions,
  type InferResult,
  type InputProblem,
  type ModelIndexEntry,
  type ModelMetadata,
  type RequestedOutput,
  type ServerMetadata,
  type TensorMetadata,
  type TlsOptions,
  type UnloadOptions,
} from './client';
export { inferInBatches, joinRows, sliceRows } from './batches';
export { TritonGrpcClient } from './grpc';
export { TritonHttpClient } from './http';
export { inputsFor, TritonModel, type InputValue } from './model';
export { toNested, toTensor, type Nested } from './nested';
export { type DataType, type Tensor, type TensorData } from './tensor';
