import { TritonError, type CallOptions, type ClientOptions } from './client';
import { CONTROL_HEADER, GRPC_CONTROL_HEADER } from './control-key';
import { TritonGrpcClient } from './grpc';
import { TritonHttpClient } from './http';

/** Where a server is controlled. */
export interface ControlAddress {
  /** Its HTTP API. */
  url: string;
  /** Its gRPC API, `HOST:PORT`, if that can be reached. */
  grpcAddress?: string;
  /** Key of its model control API, if that is guarded. */
  modelControlKey?: string;
}

/**
 * gRPC itself, or a proxy, also answers with these statuses when a server ends or a connection breaks, so the load may have
 * succeeded.
 */
const UNCERTAIN = ['gRPC UNAVAILABLE', 'gRPC CANCELLED'];

/** Time for the gRPC API to answer before a load. */
const ANSWER_MS = 5000;

/**
 * A client for agents, which loads models over gRPC. Triton's HTTP server loads a model on a thread that
 * also has connections of users, whose requests wait until the load ends (triton-inference-server/server#8958). Its gRPC
 * server has a thread for each load. If the gRPC API does not answer, models are loaded over HTTP.
 */
export class ControlClient extends TritonHttpClient {
  private readonly grpc: TritonGrpcClient | undefined;
  private closed = false;

  constructor({ url, grpcAddress, modelControlKey: key }: ControlAddress, options: ClientOptions = {}) {
    const keyIn = (header: string): Record<string, string> => (key === undefined ? {} : { [header]: key });
    super(url, { ...options, headers: keyIn(CONTROL_HEADER) });
    this.grpc =
      grpcAddress === undefined
        ? undefined
        : new TritonGrpcClient(grpcAddress, { headers: keyIn(GRPC_CONTROL_HEADER) });
  }

  override async loadModel(model: string, options: CallOptions = {}): Promise<void> {
    const { grpc } = this;
    const isAnswering = await grpc?.live({ timeoutMs: ANSWER_MS }).catch(() => false);
    // Not over HTTP either.
    if (this.closed) throw new TritonError('the client was closed', { status: 'unreachable', model });
    if (grpc === undefined || isAnswering !== true) return super.loadModel(model, options);
    try {
      await grpc.loadModel(model, options);
    } catch (error) {
      if (!(error instanceof TritonError) || !UNCERTAIN.includes(error.status)) throw error;
      throw new TritonError(error.message, { status: error.status, model, cause: error });
    }
  }

  override close(): void {
    this.closed = true;
    this.grpc?.close();
    super.close();
  }
}

/**
 * The gRPC address of a server on Triton's default ports; undefined for a server on another port, because its gRPC port is
 * not known, and another server may have the default one.
 * @param url a valid URL
 */
export function defaultGrpcAddress(url: string): string | undefined {
  const { protocol, hostname, port } = new URL(url);
  return protocol === 'http:' && port === '8000' ? `${hostname}:8001` : undefined;
}
