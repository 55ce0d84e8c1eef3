import {
  LOAD_TIMEOUT_MS,
  readable,
  getTimeoutMs,
  type CallOptions,
  type ClientOptions,
  type InferenceClient,
  type InferOptions,
  type InferResult,
  type ModelIndexEntry,
  type ModelMetadata,
  type ServerMetadata,
  type UnloadOptions,
} from './client';
import { GrpcChannel, type GrpcCall } from './grpc-channel';
import { frame } from './grpc-frames';
import { decodeAnswer, encodeRequest, inferRequest, inferResult, SERVICE, type InferAnswer } from './grpc-tensors';
import { deadlineIn, withRetries, type Repeatable } from './retry';
import type { Tensor } from './tensor';

interface Call extends GrpcCall {
  request: Record<string, unknown>;
  /** Default: `read`. */
  repeatable?: Repeatable;
}

/** Triton's gRPC API (KServe v2 with the model repository extension). */
export class TritonGrpcClient implements InferenceClient {
  private readonly channel: GrpcChannel;

  /** @param address `HOST:PORT`, or `https://HOST:PORT` for TLS */
  constructor(
    address: string,
    private readonly options: ClientOptions = {},
  ) {
    this.channel = new GrpcChannel(address, SERVICE, options);
  }

  async live(options: CallOptions = {}): Promise<boolean> {
    return (
      await this.call<{ live: boolean }>({
        method: 'ServerLive',
        request: {},
        timeoutMs: getTimeoutMs(options),
        repeatable: 'once',
      })
    ).live;
  }

  async ready(options: CallOptions = {}): Promise<boolean> {
    return (
      await this.call<{ ready: boolean }>({
        method: 'ServerReady',
        request: {},
        timeoutMs: getTimeoutMs(options),
        repeatable: 'once',
      })
    ).ready;
  }

  async modelReady(model: string, version?: number, options: CallOptions = {}): Promise<boolean> {
    const request = { name: model, version: versionText(version) };
    return (
      await this.call<{ ready: boolean }>({
        method: 'ModelReady',
        request,
        timeoutMs: getTimeoutMs(options),
        model,
        repeatable: 'once',
      })
    ).ready;
  }

  serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    return this.call({ method: 'ServerMetadata', request: {}, timeoutMs: getTimeoutMs(options) });
  }

  modelMetadata(model: string, version?: number, options: CallOptions = {}): Promise<ModelMetadata> {
    const request = { name: model, version: versionText(version) };
    return this.call({ method: 'ModelMetadata', request, timeoutMs: getTimeoutMs(options), model });
  }

  async modelConfig(model: string, version?: number, options: CallOptions = {}): Promise<Record<string, unknown>> {
    const request = { name: model, version: versionText(version) };
    const call = { method: 'ModelConfig', request, timeoutMs: getTimeoutMs(options), model };
    return (await this.call<{ config: Record<string, unknown> }>(call)).config;
  }

  async repositoryIndex(options: CallOptions = {}): Promise<ModelIndexEntry[]> {
    const call = { method: 'RepositoryIndex', request: {}, timeoutMs: getTimeoutMs(options) };
    return (await this.call<{ models: ModelIndexEntry[] }>(call)).models;
  }

  async loadModel(model: string, options: CallOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? LOAD_TIMEOUT_MS;
    await this.call({
      method: 'RepositoryModelLoad',
      request: { model_name: model },
      timeoutMs,
      model,
      repeatable: 'once',
    });
  }

  async unloadModel(model: string, options: UnloadOptions = {}): Promise<void> {
    const parameters = { unload_dependents: { bool_param: options.unloadDependents ?? false } };
    const request = { model_name: model, parameters };
    await this.call({
      method: 'RepositoryModelUnload',
      request,
      timeoutMs: getTimeoutMs(options),
      model,
      repeatable: 'once',
    });
  }

  async infer(model: string, inputs: readonly Tensor[], options: InferOptions = {}): Promise<InferResult> {
    const timeoutMs = getTimeoutMs(options);
    const deadline = deadlineIn(timeoutMs);
    const message = frame(inferRequest(model, inputs, options));
    const { headers, signal } = options;
    const call = { method: 'ModelInfer', timeoutMs, model, headers, signal };
    const bytes = await withRetries(this.options, 'infer', deadline, () => this.channel.unary(call, message, deadline));
    return readable(model, () => inferResult(decodeAnswer('ModelInfer', bytes) as InferAnswer));
  }

  close(): void {
    this.channel.close();
  }

  private async call<T>({ request, repeatable, ...call }: Call): Promise<T> {
    const deadline = deadlineIn(call.timeoutMs);
    const message = frame([encodeRequest(call.method, request)]);
    const send = (): Promise<Buffer> => this.channel.unary(call, message, deadline);
    const bytes = await withRetries(this.options, repeatable ?? 'read', deadline, send);
    return readable(call.model, () => decodeAnswer(call.method, bytes) as T);
  }
}

function versionText(version: number | undefined): string {
  return version === undefined ? '' : String(version);
}
