import * as grpc from '@grpc/grpc-js';
import protobuf from 'protobufjs/light';
import {
  DEFAULT_TIMEOUT_MS,
  LOAD_TIMEOUT_MS,
  TritonError,
  type CallOptions,
  type InferenceClient,
  type InferOptions,
  type InferResult,
  type ModelIndexEntry,
  type ModelMetadata,
  type ServerMetadata,
  type UnloadOptions,
} from './client';
import protocol from './protocol.json';
import { decodeTensor, encodeTensor, type Tensor } from './tensor';

const SERVICE = 'inference.GRPCInferenceService';
const service = protobuf.Root.fromJSON(protocol).resolveAll().lookupService(SERVICE);

interface Call {
  method: string;
  request: Record<string, unknown>;
  timeoutMs: number;
  model?: string;
}

/** Triton's gRPC API (KServe v2 with the model repository extension). */
export class TritonGrpcClient implements InferenceClient {
  private readonly client: grpc.Client;

  /** @param address `HOST:PORT` */
  constructor(private readonly address: string) {
    this.client = new grpc.Client(address, grpc.credentials.createInsecure(), {
      // Tensors have no natural limit.
      'grpc.max_receive_message_length': -1,
      'grpc.max_send_message_length': -1,
      // A web proxy in the environment is not meant for this server.
      'grpc.enable_http_proxy': 0,
    });
  }

  async live(options: CallOptions = {}): Promise<boolean> {
    return (await this.call<{ live: boolean }>({ method: 'ServerLive', request: {}, timeoutMs: timeout(options) }))
      .live;
  }

  async ready(options: CallOptions = {}): Promise<boolean> {
    return (await this.call<{ ready: boolean }>({ method: 'ServerReady', request: {}, timeoutMs: timeout(options) }))
      .ready;
  }

  async modelReady(model: string, version?: number, options: CallOptions = {}): Promise<boolean> {
    const request = { name: model, version: versionText(version) };
    return (await this.call<{ ready: boolean }>({ method: 'ModelReady', request, timeoutMs: timeout(options), model }))
      .ready;
  }

  serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    return this.call({ method: 'ServerMetadata', request: {}, timeoutMs: timeout(options) });
  }

  modelMetadata(model: string, version?: number, options: CallOptions = {}): Promise<ModelMetadata> {
    const request = { name: model, version: versionText(version) };
    return this.call({ method: 'ModelMetadata', request, timeoutMs: timeout(options), model });
  }

  async modelConfig(model: string, version?: number, options: CallOptions = {}): Promise<Record<string, unknown>> {
    const request = { name: model, version: versionText(version) };
    const call = { method: 'ModelConfig', request, timeoutMs: timeout(options), model };
    return (await this.call<{ config: Record<string, unknown> }>(call)).config;
  }

  async repositoryIndex(options: CallOptions = {}): Promise<ModelIndexEntry[]> {
    const call = { method: 'RepositoryIndex', request: {}, timeoutMs: timeout(options) };
    return (await this.call<{ models: ModelIndexEntry[] }>(call)).models;
  }

  async loadModel(model: string, options: CallOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? LOAD_TIMEOUT_MS;
    await this.call({ method: 'RepositoryModelLoad', request: { model_name: model }, timeoutMs, model });
  }

  async unloadModel(model: string, options: UnloadOptions = {}): Promise<void> {
    const parameters = { unload_dependents: { bool_param: options.unloadDependents ?? false } };
    const request = { model_name: model, parameters };
    await this.call({ method: 'RepositoryModelUnload', request, timeoutMs: timeout(options), model });
  }

  async infer(model: string, inputs: readonly Tensor[], options: InferOptions = {}): Promise<InferResult> {
    const request = inferRequest(model, inputs, options);
    const answer = await this.call<InferAnswer>({ method: 'ModelInfer', request, timeoutMs: timeout(options), model });
    return inferResult(model, answer);
  }

  close(): void {
    this.client.close();
  }

  private call<T>({ method, request, timeoutMs, model }: Call): Promise<T> {
    const { resolvedRequestType, resolvedResponseType } = methodTypes(method);
    return new Promise((resolve, reject) => {
      this.client.makeUnaryRequest<Record<string, unknown>, T>(
        `/${SERVICE}/${method}`,
        (message) => Buffer.from(resolvedRequestType.encode(resolvedRequestType.fromObject(message)).finish()),
        (bytes) =>
          resolvedResponseType.toObject(resolvedResponseType.decode(bytes), {
            longs: Number,
            enums: String,
            defaults: true,
          }) as T,
        request,
        new grpc.Metadata(),
        { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          if (error !== null) reject(this.failure(error, method, timeoutMs, model));
          else resolve(answer as T);
        },
      );
    });
  }

  private failure(cause: grpc.ServiceError, method: string, timeoutMs: number, model: string | undefined): TritonError {
    if (cause.code === grpc.status.DEADLINE_EXCEEDED) {
      const message = `${this.address} did not answer ${method} within ${timeoutMs / 1000} s`;
      return new TritonError(message, { status: 'timeout', model, cause });
    }
    // Triton answers UNAVAILABLE too, about models; what grpc-js says itself names no model.
    if (cause.code === grpc.status.UNAVAILABLE && /^(No connection|Connection dropped|.*ECONN)/.test(cause.details)) {
      return new TritonError(`${this.address} cannot be reached: ${cause.details.split('. Resolution note')[0]}`, {
        status: 'unreachable',
        model,
        hint: 'check the address, and that the server runs and is not starting or ending',
        cause,
      });
    }
    // Triton 2.51 refuses a wrong shape without a word.
    const message = cause.details === '' ? `${this.address} refused ${method} without a reason` : cause.details;
    return new TritonError(message, { status: `gRPC ${grpc.status[cause.code]}`, model, cause });
  }
}

function methodTypes(name: string): { resolvedRequestType: protobuf.Type; resolvedResponseType: protobuf.Type } {
  const { resolvedRequestType, resolvedResponseType } = service.methods[name] ?? {};
  if (!resolvedRequestType || !resolvedResponseType) throw new Error(`${SERVICE} has no method ${name}`);
  return { resolvedRequestType, resolvedResponseType };
}

function timeout(options: CallOptions): number {
  return options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
}

function versionText(version: number | undefined): string {
  return version === undefined ? '' : String(version);
}

function inferRequest(model: string, inputs: readonly Tensor[], options: InferOptions): Record<string, unknown> {
  return {
    model_name: model,
    model_version: versionText(options.version),
    id: options.requestId ?? '',
    inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape })),
    outputs: (options.outputs ?? []).map(({ name, classification }) => ({
      name,
      parameters: classification === undefined ? {} : { classification: { int64_param: classification } },
    })),
    raw_input_contents: inputs.map(encodeTensor),
  };
}

interface InferAnswer {
  model_name: string;
  model_version: string;
  id: string;
  outputs: { name: string; datatype: string; shape: number[] }[];
  raw_output_contents: Buffer[];
}

function inferResult(model: string, answer: InferAnswer): InferResult {
  try {
    const outputs = answer.outputs.map(({ name, datatype, shape }, i) =>
      decodeTensor(name, datatype, shape, answer.raw_output_contents[i] ?? Buffer.alloc(0)),
    );
    return { model: answer.model_name, version: answer.model_version, requestId: answer.id, outputs };
  } catch (cause) {
    throw new TritonError(`the answer cannot be read: ${(cause as Error).message}`, {
      status: 'bad response',
      model,
      cause,
    });
  }
}
