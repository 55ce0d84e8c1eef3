import * as http from 'node:http';
import * as https from 'node:https';
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
import { decodeTensor, encodeTensor, type Tensor } from './tensor';

export type { ModelIndexEntry } from './client';

/** How long the JSON in front of the binary tensor data is (binary tensor data extension). */
const JSON_LENGTH_HEADER = 'Inference-Header-Content-Length';

interface Call {
  method: 'GET' | 'POST';
  path: string;
  headers?: http.OutgoingHttpHeaders;
  body?: Buffer;
  timeoutMs: number;
  /** For the error. */
  model?: string;
  /** What must not be sent twice gets a connection of its own, which cannot be one that the server just gave up. */
  once?: boolean;
}

interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

/** Triton's HTTP API (KServe v2 with the model repository and binary tensor data extensions). */
export class TritonHttpClient implements InferenceClient {
  private readonly url: string;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly transport: typeof http | typeof https;
  private readonly agent: http.Agent;
  private readonly onceAgent: http.Agent;
  private closed = false;

  /**
   * @param url `http://HOST:PORT` or `https://HOST:PORT`, a path behind it if a proxy wants one
   * @param options.headers sent with every request: what a proxy or a guarded API asks for
   */
  constructor(url: string, options: { headers?: Readonly<Record<string, string>> } = {}) {
    this.headers = options.headers ?? {};
    this.url = url.replace(/\/+$/, '');
    this.transport = this.url.startsWith('https:') ? https : http;
    this.agent = new this.transport.Agent({ keepAlive: true });
    this.onceAgent = new this.transport.Agent();
  }

  live(options: CallOptions = {}): Promise<boolean> {
    return this.isOk('v2/health/live', options);
  }

  ready(options: CallOptions = {}): Promise<boolean> {
    return this.isOk('v2/health/ready', options);
  }

  modelReady(model: string, version?: number, options: CallOptions = {}): Promise<boolean> {
    return this.isOk(`${modelPath(model, version)}/ready`, options);
  }

  serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    return this.json({ method: 'GET', path: 'v2', timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS });
  }

  modelMetadata(model: string, version?: number, options: CallOptions = {}): Promise<ModelMetadata> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    return this.json({ method: 'GET', path: modelPath(model, version), timeoutMs, model });
  }

  modelConfig(model: string, version?: number, options: CallOptions = {}): Promise<Record<string, unknown>> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    return this.json({ method: 'GET', path: `${modelPath(model, version)}/config`, timeoutMs, model });
  }

  async repositoryIndex(options: CallOptions = {}): Promise<ModelIndexEntry[]> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const entries = await this.json<(Partial<ModelIndexEntry> & { name: string })[]>({
      method: 'POST',
      path: 'v2/repository/index',
      timeoutMs,
    });
    return entries.map(({ name, version, state, reason }) => ({
      name,
      version: version ?? '',
      state: state ?? '',
      reason: reason ?? '',
    }));
  }

  async loadModel(model: string, options: CallOptions = {}): Promise<void> {
    const path = `v2/repository/models/${encodeURIComponent(model)}/load`;
    await this.ok({ method: 'POST', path, timeoutMs: options.timeoutMs ?? LOAD_TIMEOUT_MS, model, once: true });
  }

  async unloadModel(model: string, options: UnloadOptions = {}): Promise<void> {
    await this.ok({
      method: 'POST',
      path: `v2/repository/models/${encodeURIComponent(model)}/unload`,
      body: Buffer.from(JSON.stringify({ parameters: { unload_dependents: options.unloadDependents ?? false } })),
      timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      model,
    });
  }

  async infer(model: string, inputs: readonly Tensor[], options: InferOptions = {}): Promise<InferResult> {
    const { headers, body } = inferRequest(inputs, options);
    const path = `${modelPath(model, options.version)}/infer`;
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const answer = await this.ok({ method: 'POST', path, headers, body, timeoutMs, model });
    return readable(model, () => inferResult(answer));
  }

  close(): void {
    this.closed = true;
    this.agent.destroy();
    this.onceAgent.destroy();
  }

  private async isOk(path: string, options: CallOptions): Promise<boolean> {
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    return (await this.call({ method: 'GET', path, timeoutMs })).status === 200;
  }

  private async json<T>(call: Call): Promise<T> {
    const { body } = await this.ok(call);
    return readable(call.model, () => JSON.parse(body.toString()) as T);
  }

  private async ok(call: Call): Promise<Answer> {
    const answer = await this.call(call);
    if (answer.status === 200) return answer;
    const reason = serverMessage(answer.body);
    const message = reason ?? `${this.url}/${call.path} answered without a reason`;
    throw new TritonError(message, {
      status: `HTTP ${answer.status}`,
      model: call.model,
      answered: reason !== undefined,
    });
  }

  private async call(call: Call): Promise<Answer> {
    const signal = AbortSignal.timeout(call.timeoutMs);
    try {
      return await this.send(call, signal);
    } catch (cause) {
      if (signal.aborted) {
        const message = `${this.url}/${call.path} did not answer within ${call.timeoutMs / 1000} s`;
        throw new TritonError(message, { status: 'timeout', model: call.model, cause });
      }
      throw new TritonError(`${this.url} cannot be reached: ${(cause as Error).message}`, {
        status: 'unreachable',
        model: call.model,
        hint: 'check the URL, and that the server runs and is not starting or ending',
        cause,
      });
    }
  }

  private send(call: Call, signal: AbortSignal): Promise<Answer> {
    const body = call.body ?? Buffer.alloc(0);
    return new Promise((resolve, reject) => {
      const request = this.transport.request(`${this.url}/${call.path}`, {
        method: call.method,
        agent: call.once === true ? this.onceAgent : this.agent,
        headers: { ...this.headers, ...call.headers, 'Content-Length': body.length },
        signal,
      });
      request.on('error', (error: NodeJS.ErrnoException) => {
        // The server closed an idle connection just as it was used again, so it has seen nothing of this call.
        const stale = request.reusedSocket && error.code === 'ECONNRESET';
        if (stale && !signal.aborted && !this.closed) this.send(call, signal).then(resolve, reject);
        else reject(error);
      });
      request.on('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      });
      request.end(body);
    });
  }
}

function modelPath(model: string, version: number | undefined): string {
  const path = `v2/models/${encodeURIComponent(model)}`;
  return version === undefined ? path : `${path}/versions/${version}`;
}

function inferRequest(inputs: readonly Tensor[], options: InferOptions): Required<Pick<Call, 'headers' | 'body'>> {
  const data = inputs.map(encodeTensor);
  const json = Buffer.from(
    JSON.stringify({
      id: options.requestId,
      parameters: { binary_data_output: true },
      inputs: inputs.map(({ name, datatype, shape }, i) => ({
        name,
        datatype,
        shape,
        parameters: { binary_data_size: data[i]?.length },
      })),
      outputs: options.outputs?.map(({ name, classification }) => ({
        name,
        parameters: { binary_data: true, classification },
      })),
    }),
  );
  return {
    headers: { 'Content-Type': 'application/octet-stream', [JSON_LENGTH_HEADER]: json.length },
    body: Buffer.concat([json, ...data]),
  };
}

interface InferAnswer {
  model_name: string;
  model_version: string;
  id?: string;
  outputs: { name: string; datatype: string; shape: number[]; parameters?: { binary_data_size?: number } }[];
}

function inferResult({ headers, body }: Answer): InferResult {
  const jsonLength = Number(headers[JSON_LENGTH_HEADER.toLowerCase()] ?? body.length);
  const answer = JSON.parse(body.toString('utf8', 0, jsonLength)) as InferAnswer;
  let offset = jsonLength;
  const outputs = answer.outputs.map(({ name, datatype, shape, parameters }) => {
    const end = offset + (parameters?.binary_data_size ?? 0);
    const tensor = decodeTensor(name, datatype, shape, body.subarray(offset, end));
    offset = end;
    return tensor;
  });
  return { model: answer.model_name, version: answer.model_version, requestId: answer.id ?? '', outputs };
}

function readable<T>(model: string | undefined, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new TritonError(`the answer cannot be read: ${(cause as Error).message}`, {
      status: 'bad response',
      model,
      cause,
    });
  }
}

function serverMessage(body: Buffer): string | undefined {
  try {
    return (JSON.parse(body.toString()) as { error?: string }).error;
  } catch {
    return undefined;
  }
}
