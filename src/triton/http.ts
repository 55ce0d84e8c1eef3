import * as http from 'node:http';
import * as https from 'node:https';
import { formatBytes } from '../core/format';
import {
  DEFAULT_TIMEOUT_MS,
  LOAD_TIMEOUT_MS,
  readable,
  serverUrl,
  startTimer,
  TOO_LARGE,
  TritonError,
  type CallOptions,
  type ClientOptions,
  type InferOptions,
  type InferResult,
  type ModelIndexEntry,
  type ModelMetadata,
  type ModelStatistics,
} from './client';
import { decodeTensor, encodeTensor, type Tensor } from './tensor';

/** Header with the length of the JSON that precedes the binary tensor data (binary tensor data extension). */
const JSON_LENGTH_HEADER = 'inference-header-content-length';

interface HttpCall {
  method: 'GET' | 'POST';
  /** Path after the server's URL. */
  path: string;
  headers?: Record<string, string>;
  /** Parts of the body. Large bodies are sent without joining their parts. */
  body?: readonly Buffer[];
  timeoutMs: number;
  /** For the error message. */
  model?: string;
}

interface HttpAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

/**
 * Triton's HTTP API (KServe v2 with the model repository and binary tensor data extensions). Each call has a connection of its own:
 * Triton waits for open connections when it ends, and a call on a reused connection can fail because the server closes it.
 * Every call ends by its deadline; a call that fails throws a TritonError.
 */
export class TritonHttpClient {
  readonly url: string;
  private readonly agent: http.Agent;

  /**
   * @param url `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`, with a path if a proxy needs one
   * @throws UserError if `url` has another form
   */
  constructor(
    url: string,
    private readonly options: ClientOptions = {},
  ) {
    this.url = serverUrl(url);
    this.agent = this.isTls ? new https.Agent() : new http.Agent();
  }

  /** Whether the server runs. */
  live(options: CallOptions = {}): Promise<boolean> {
    return this.isOk('v2/health/live', options);
  }

  /** Whether the model, or one version of it, accepts inference requests; false for a missing model. */
  modelReady(model: string, version?: number, options: CallOptions = {}): Promise<boolean> {
    return this.isOk(`${modelPath(model, version)}/ready`, options);
  }

  modelMetadata(model: string, version?: number, options: CallOptions = {}): Promise<ModelMetadata> {
    return this.read('GET', modelPath(model, version), options, model);
  }

  /** The configuration as the server completed it, with Triton's field names. */
  modelConfig(model: string, version?: number, options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.read('GET', `${modelPath(model, version)}/config`, options, model);
  }

  /** Every model of the repository, one entry for each version that was ever loaded. */
  async repositoryIndex(options: CallOptions = {}): Promise<ModelIndexEntry[]> {
    const entries = await this.read<(Partial<ModelIndexEntry> & { name: string })[]>(
      'POST',
      'v2/repository/index',
      options,
    );
    return entries.map((entry) => ({ version: '', state: '', reason: '', ...entry }));
  }

  /** Of all models that are loaded. */
  async statistics(options: CallOptions = {}): Promise<ModelStatistics[]> {
    return (await this.read<{ model_stats: ModelStatistics[] }>('GET', 'v2/models/stats', options)).model_stats;
  }

  /**
   * Loads or reloads a model, and resolves when that is done. Needs EXPLICIT model control mode. Requests on other
   * connections wait until the load ends, because they share a thread of the server; a ControlClient loads over gRPC.
   */
  async loadModel(model: string, { timeoutMs = LOAD_TIMEOUT_MS }: CallOptions = {}): Promise<void> {
    await this.call({
      method: 'POST',
      path: `v2/repository/models/${encodeURIComponent(model)}/load`,
      timeoutMs,
      model,
    });
  }

  /** Requests that a model is unloaded, and resolves before that is done. */
  async unloadModel(model: string, { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {}): Promise<void> {
    const path = `v2/repository/models/${encodeURIComponent(model)}/unload`;
    await this.call({ method: 'POST', path, timeoutMs, model });
  }

  async infer(model: string, inputs: readonly Tensor[], options: InferOptions = {}): Promise<InferResult> {
    const [json, ...data] = inferRequest(inputs, options);
    const answer = await this.call({
      method: 'POST',
      path: `${modelPath(model, options.version)}/infer`,
      headers: { 'content-type': 'application/octet-stream', [JSON_LENGTH_HEADER]: String(json.length) },
      body: [json, ...data],
      timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      model,
    });
    return readable(model, () => inferResult(answer));
  }

  /** Ends the calls in flight. */
  close(): void {
    this.agent.destroy();
  }

  private get isTls(): boolean {
    return new URL(this.url).protocol === 'https:';
  }

  private async isOk(path: string, { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions): Promise<boolean> {
    return (await this.send({ method: 'GET', path, timeoutMs })).status === 200;
  }

  private async read<T>(method: HttpCall['method'], path: string, options: CallOptions, model?: string): Promise<T> {
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const { body } = await this.call({ method, path, timeoutMs, model });
    return readable(model, () => JSON.parse(body.toString()) as T);
  }

  /** @throws TritonError for each status except 200 */
  private async call(call: HttpCall): Promise<HttpAnswer> {
    const answer = await this.send(call);
    if (answer.status === 200) return answer;
    const reason = serverMessage(answer.body);
    const message = reason ?? `${this.url}/${call.path} answered HTTP ${answer.status}${proxyMessage(answer.body)}`;
    const status = `HTTP ${answer.status}`;
    throw new TritonError(message, { status, model: call.model, answered: reason !== undefined });
  }

  /** Sends a request and reads its whole answer, for any status. */
  private send({ method, path, headers, body = [], timeoutMs, model }: HttpCall): Promise<HttpAnswer> {
    const url = `${this.url}/${path}`;
    const length = body.reduce((sum, part) => sum + part.length, 0);
    const { mostAnswerBytes = Infinity } = this.options;
    return new Promise((resolve, reject) => {
      const request = (this.isTls ? https : http).request(url, {
        method,
        agent: this.agent,
        headers: { ...this.options.headers, ...headers, 'content-length': length },
      });
      const timer = startTimer(timeoutMs, () =>
        end(new TritonError(`${url} did not answer within ${seconds(timeoutMs)}`, { status: 'timeout', model })),
      );
      const end = (result: HttpAnswer | TritonError): void => {
        clearTimeout(timer);
        if (!(result instanceof TritonError)) return resolve(result);
        // The first error counts, because others follow from the end of the request.
        reject(result);
        request.destroy();
      };
      const fail = (cause: Error): void => end(this.unreachable(cause, model));
      request.on('error', fail).on('response', (response) => {
        const chunks: Buffer[] = [];
        let left = mostAnswerBytes;
        const count = (bytes: number): void => {
          left -= bytes;
          if (left < 0) end(tooLarge(mostAnswerBytes, model));
        };
        const announced = Number(response.headers['content-length'] ?? 0);
        if (announced > left) return count(announced);
        response
          .on('error', fail)
          .on('data', (chunk: Buffer) => {
            chunks.push(chunk);
            count(chunk.length);
          })
          .on('end', () => {
            const { statusCode: status = 0, headers: received } = response;
            end({ status, headers: received, body: Buffer.concat(chunks) });
          });
      });
      for (const part of body) request.write(part);
      request.end();
    });
  }

  private unreachable(cause: Error, model: string | undefined): TritonError {
    // If all addresses of a host fail, Node reports one error without a message.
    const [first] = ((cause as Partial<AggregateError>).errors ?? []) as Error[];
    const { message } = cause.message === '' && first !== undefined ? first : cause;
    return new TritonError(`${this.url} cannot be reached: ${message}`, {
      status: 'unreachable',
      model,
      hint: 'check the URL, and whether the server is running',
      cause,
    });
  }
}

/** The calls that read and ask models. */
export type InferenceClient = Pick<
  TritonHttpClient,
  'modelMetadata' | 'modelConfig' | 'repositoryIndex' | 'infer' | 'statistics'
>;

const seconds = (ms: number): string => `${Math.round(ms) / 1000} s`;

function tooLarge(mostAnswerBytes: number, model: string | undefined): TritonError {
  return new TritonError(`the answer is larger than ${formatBytes(mostAnswerBytes)}, the limit of this client`, {
    status: TOO_LARGE,
    model,
    hint: 'use golden requests with smaller answers, or publish with --no-ask, which does not verify answers',
  });
}

function modelPath(model: string, version: number | undefined): string {
  const path = `v2/models/${encodeURIComponent(model)}`;
  return version === undefined ? path : `${path}/versions/${version}`;
}

/** A request: JSON, followed by the bytes of each input. */
function inferRequest(inputs: readonly Tensor[], { parameters, outputs }: InferOptions): [Buffer, ...Buffer[]] {
  const data = inputs.map(encodeTensor);
  const request = {
    parameters: { ...parameters, binary_data_output: true },
    inputs: inputs.map(({ name, datatype, shape }, i) => ({
      ...{ name, datatype, shape },
      parameters: { binary_data_size: data[i]?.length },
    })),
    outputs: outputs?.map(({ name, classification }) => ({ name, parameters: { binary_data: true, classification } })),
  };
  return [Buffer.from(JSON.stringify(request)), ...data];
}

interface InferAnswer {
  model_name: string;
  model_version: string;
  outputs: { name: string; datatype: string; shape: number[]; parameters?: { binary_data_size?: number } }[];
}

function inferResult({ headers, body }: HttpAnswer): InferResult {
  let offset = Number(headers[JSON_LENGTH_HEADER] ?? body.length);
  const answer = JSON.parse(body.toString('utf8', 0, offset)) as InferAnswer;
  const outputs = answer.outputs.map(({ name, datatype, shape, parameters }) => {
    const start = offset;
    offset += parameters?.binary_data_size ?? 0;
    return decodeTensor(name, datatype, shape, body.subarray(start, offset));
  });
  return { model: answer.model_name, version: answer.model_version, outputs };
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
