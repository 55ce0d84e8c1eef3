import type { RepositoryModel } from '../model';
import { addGolden, ASK_TIMEOUT_MS, isLost, whyNotSingly } from '../release/ask';
import type { InferenceClient, InferResult } from '../triton/client';
import { TritonGrpcClient } from '../triton/grpc';
import { TritonHttpClient } from '../triton/http';
import { explainRequestFailure } from '../triton/load-failure';
import { encodeTensor, type Tensor } from '../triton/tensor';
import type { DisplayedResult } from './displayed-results';
import { toNumbers, sampleFor, type SampleRequest } from './sample-requests';

/** The answer of one model to one request. */
export interface SmokeTestResult {
  model: string;
  protocol: 'HTTP' | 'gRPC';
  milliseconds: number;
  /** A short description; empty if there is an error. */
  result: string;
  error?: string;
  /** The next step after an error. */
  hint?: string | undefined;
  /** The request has only zeros, so an error may be right and does not mean that the model is not served. */
  isZeros?: true;
  /** Content for the page, if the answer is more than text. */
  display?: DisplayedResult;
}

interface Client {
  protocol: SmokeTestResult['protocol'];
  client: InferenceClient;
}

/** A model may sum up the same request in another order, which changes only the last digits. */
const SAME_WITHIN = 1e-3;

/**
 * Sends each model one request whose answer is shown, over HTTP and over gRPC, whose answers must be equal. The agent has
 * verified the answers before the models count as released.
 */
export async function askEachModel(
  endpoints: { httpUrl: string; grpcAddress: string },
  models: readonly RepositoryModel[],
): Promise<SmokeTestResult[]> {
  const clients: Client[] = [
    { protocol: 'HTTP', client: new TritonHttpClient(endpoints.httpUrl) },
    { protocol: 'gRPC', client: new TritonGrpcClient(endpoints.grpcAddress) },
  ];
  try {
    const answers: SmokeTestResult[] = [];
    for (const model of models) answers.push(...(await askModel(clients, model)));
    return answers;
  } finally {
    for (const { client } of clients) client.close();
  }
}

/** Sends the request of one model with each client, HTTP first. */
async function askModel(clients: readonly Client[], model: RepositoryModel): Promise<SmokeTestResult[]> {
  const [http] = clients as [Client, ...Client[]];
  const { name } = model;
  const own = { model: name, protocol: http.protocol, milliseconds: 0, result: '' };
  const described = (error: unknown): string => explainRequestFailure(name, (error as Error).message);
  let sample: SampleRequest;
  try {
    const config = await http.client.modelConfig(name);
    const reason = whyNotSingly(config);
    if (reason !== undefined) return [{ ...own, result: `was not asked: ${reason}` }];
    sample = await sampleFor(model, config);
  } catch (error) {
    return [{ ...own, error: `cannot create a request: ${(error as Error).message}` }];
  }
  const answers: SmokeTestResult[] = [];
  let first: Tensor[] | undefined;
  for (const { protocol, client } of clients) {
    const started = performance.now();
    const answer: SmokeTestResult = { ...own, protocol, ...(sample.isZeros === true && { isZeros: true }) };
    answers.push(answer);
    try {
      const { outputs } = await infer(client, name, sample);
      answer.milliseconds = performance.now() - started;
      answer.result = first === undefined ? sample.read(outputs) : compared(first, outputs, sample, model);
      if (first === undefined && sample.show !== undefined) answer.display = sample.show(outputs);
      first ??= outputs;
    } catch (error) {
      answer.error = described(error);
      // Otherwise the answer is wrong, or the model's process has ended.
      if (answer.isZeros === true && answer.milliseconds === 0 && !isLost(error)) {
        answer.error = `the zero request failed: ${answer.error}`;
        answer.hint = `if zeros are not valid input, ${addGolden(name)}`;
      } else delete answer.isZeros;
      // Another request would fail in the same way, or wait as long.
      break;
    }
  }
  return answers;
}

const infer = (client: InferenceClient, model: string, { inputs, parameters }: SampleRequest): Promise<InferResult> =>
  client.infer(model, inputs, { parameters, timeoutMs: ASK_TIMEOUT_MS });

/** @throws Error if the answer is another one than the first, unless the model is a program, which may be random */
function compared(
  first: readonly Tensor[],
  outputs: readonly Tensor[],
  sample: SampleRequest,
  { platform }: RepositoryModel,
): string {
  sample.read(outputs);
  for (const [i, output] of outputs.entries()) {
    const other = first[i];
    if (
      other?.name !== output.name ||
      other.datatype !== output.datatype ||
      String(other.shape) !== String(output.shape)
    ) {
      throw new Error(
        `the answer over gRPC has other tensors than over HTTP (${output.name} instead of ${other?.name ?? 'none'})`,
      );
    }
    if (Buffer.compare(encodeTensor(other), encodeTensor(output)) !== 0 && !isClose(other, output)) {
      if (platform === 'python') return 'another answer than over HTTP, as a program may give';
      throw new Error(`output ${output.name} differs between HTTP and gRPC`);
    }
  }
  return 'same as over HTTP';
}

function isClose(a: Tensor, b: Tensor): boolean {
  if (a.datatype === 'BYTES') return false;
  const other = toNumbers(b);
  // A pixel may be rounded in the other direction.
  const allowed = a.datatype === 'UINT8' ? 1 : SAME_WITHIN;
  return toNumbers(a).every((value, i) => Math.abs(value - (other[i] ?? NaN)) <= allowed);
}
