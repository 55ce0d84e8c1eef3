import {
  LOAD_TIMEOUT_MS,
  readable,
  getTimeoutMs,
  TritonError,
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
import { inferRequest, inferResult } from './http-tensors';
import { HttpTransport, JSON_LENGTH_HEADER, type HttpAnswer, type HttpCall } from './http-transport';
import { deadlineIn, withRetries, type Repeatable } from './retry';
import type { Tensor } from './tensor';

type Call = HttpCall & { repeatable: Repeatable };

/** Triton's HTTP API (KServe v2 with the model repository and binary tensor data extensions). */
export class TritonHttpClient implements InferenceClient {
  private readonly transport: HttpTransport;

  /**
   * @param url `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`, with a path if a proxy needs one
   * @throws UserError if `url` has another form
   */
  constructor(
    url: string,
    private readonly options: ClientOptions = {},
  ) {
    this.transport = new HttpTransport(url, options);
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
    return this.json({ method: 'GET', path: 'v2', timeoutMs: getTimeoutMs(options) });
  }

  modelMetadata(model: string, version?: number, options: CallOptions = {}): Promise<ModelMetadata> {
    const timeoutMs = getTimeoutMs(options);
    return this.json({ method: 'GET', path: modelPath(model, version), timeoutMs, model });
  }

  modelConfig(model: string, version?: number, options: CallOptions = {}): Promise<Record<string, unknown>> {
    const timeoutMs = getTimeoutMs(options);
    return this.json({ method: 'GET', path: `${modelPath(model, version)}/config`, timeoutMs, model });
  }

  async repositoryIndex(options: CallOptions = {}): Promise<ModelIndexEntry[]> {
    const timeoutMs = getTimeoutMs(options);
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
    await this.ok({
      method: 'POST',
      path,
      timeoutMs: options.timeoutMs ?? LOAD_TIMEOUT_MS,
      model,
      ownConnection: true,
      repeatable: 'once',
    });
  }

  async unloadModel(model: string, options: UnloadOptions = {}): Promise<void> {
    await this.ok({
      method: 'POST',
      path: `v2/repository/models/${encodeURIComponent(model)}/unload`,
      body: [Buffer.from(JSON.stringify({ parameters: { unload_dependents: options.unloadDependents ?? false } }))],
      timeoutMs: getTimeoutMs(options),
      model,
      ownConnection: true,
      repeatable: 'once',
    });
  }

  async infer(model: string, inputs: readonly Tensor[], options: InferOptions = {}): Promise<InferResult> {
    const { jsonLength, parts } = inferRequest(inputs, options);
    const answer = await this.ok({
      method: 'POST',
      path: `${modelPath(model, options.version)}/infer`,
      headers: {
        ...options.headers,
        'Content-Type': 'application/octet-stream',
        [JSON_LENGTH_HEADER]: jsonLength,
      },
      body: parts,
      timeoutMs: getTimeoutMs(options),
      model,
      signal: options.signal,
      repeatable: 'infer',
    });
    return readable(model, () => inferResult(answer));
  }

  close(): void {
    this.transport.close();
  }

  private async isOk(path: string, options: CallOptions): Promise<boolean> {
    const timeoutMs = getTimeoutMs(options);
    const { status } = await this.transport.send({ method: 'GET', path, timeoutMs }, deadlineIn(timeoutMs));
    return status === 200;
  }

  private async json<T>(call: Omit<Call, 'repeatable'>): Promise<T> {
    const { body } = await this.ok({ ...call, repeatable: 'read' });
    return readable(call.model, () => JSON.parse(body.toString()) as T);
  }

  private ok(call: Call): Promise<HttpAnswer> {
    const deadline = deadlineIn(call.timeoutMs);
    return withRetries(this.options, call.repeatable, deadline, () => this.once(call, deadline));
  }

  private async once(call: Call, deadline: number): Promise<HttpAnswer> {
    const answer = await this.transport.send(call, deadline);
    if (answer.status === 200) return answer;
    const reason = serverMessage(answer.body);
    const message =
      reason ?? `${this.transport.url}/${call.path} answered HTTP ${answer.status}${proxyMessage(answer.body)}`;
    throw new TritonError(message, {
      status: `HTTP ${answer.status}`,
      model: call.model,
      answered: reason !== undefined,
    });
  }
}

function modelPath(model: string, version: number | undefined): string {
  const path = `v2/models/${encodeURIComponent(model)}`;
  return version === undefined ? path : `${path}/versions/${version}`;
}

function serverMessage(body: Buffer): string | undefined {
  try {
    return (JSON.parse(body.toString()) as { error?: string }).error;
  } catch {
    return undefined;
  }
}

const LONGEST_MESSAGE = 200;

/** The first line of text in a proxy's answer, which usually is an HTML page. */
function proxyMessage(body: Buffer): string {
  const line = body
    .toString()
    .replace(/<(style|script)[\s\S]*?<\/\1>|<[^>]*>/g, ' ')
    .split('\n')
    .map((text) => text.trim())
    .find((text) => text !== '');
  return line === undefined ? ' without a reason' : `: ${line.slice(0, LONGEST_MESSAGE)}`;
}
