import { UserError } from '../core/errors';
import type { RepositoryModel } from '../model';
import { askModel as askBeforeCommit, ASK_TIMEOUT_MS, isLost, type Answered } from '../release/ask';
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

/** Whether a model refused zeros. The model is served, and its configuration does not require it to accept zeros. */
export const isZerosRefused = ({ error, isZeros }: SmokeTestResult): boolean => error !== undefined && isZeros === true;

/** Whether a model answered wrongly, or not at all. */
export const isWrong = (answer: SmokeTestResult): boolean => answer.error !== undefined && !isZerosRefused(answer);

/** The error of a wrong answer, with the next steps. */
export const wrongAnswer = ({ model, error, hint, isZeros }: SmokeTestResult): UserError =>
  new UserError(
    error?.startsWith(`${model} version `) === true
      ? error
      : `${model} answers wrongly: ${isZeros === true ? 'zeros, which it answered before, fail: ' : ''}${error}`,
    {
      hint:
        hint ??
        `fix ${model}; if the answer is right, correct the golden request; to send the model requests, restart "npm run local" with --no-ask`,
    },
  );

interface Client {
  protocol: SmokeTestResult['protocol'];
  client: InferenceClient;
}

/** A model may sum up the same request in another order, which changes only the last digits. */
const SAME_WITHIN = 1e-3;

/**
 * Asks each model as it is asked before a release counts, and sends one request whose answer is shown, over HTTP and over
 * gRPC, whose answers must be equal.
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

/** Sends the requests of one model with each client, HTTP first. */
export async function askModel(clients: readonly Client[], model: RepositoryModel): Promise<SmokeTestResult[]> {
  const [http] = clients as [Client, ...Client[]];
  const { name, golden } = model;
  const own = { model: name, protocol: http.protocol, milliseconds: 0, result: '' };
  const described = (error: unknown): string => explainRequestFailure(name, (error as Error).message);
  let answered: Answered;
  try {
    answered = await askBeforeCommit(http.client, model, golden, { zerosWereAnswered: false });
  } catch (error) {
    return [{ ...own, error: described(error), hint: error instanceof UserError ? error.hint : undefined }];
  }
  if (answered.asked === 'impossible') return [{ ...own, result: answered.text }];
  if (answered.asked === 'zeros failed') return [{ ...own, error: answered.text, hint: answered.hint, isZeros: true }];
  let sample: SampleRequest;
  try {
    sample = await sampleFor(model, await http.client.modelConfig(name));
  } catch (error) {
    return [{ ...own, error: `cannot create a request: ${(error as Error).message}` }];
  }
  const answers: SmokeTestResult[] = [];
  let first: Tensor[] | undefined;
  for (const { protocol, client } of clients) {
    const started = performance.now();
    const answer: SmokeTestResult = { ...own, protocol, ...(answered.asked === 'zeros' && { isZeros: true }) };
    answers.push(answer);
    try {
      const { outputs } = await infer(client, name, sample);
      answer.milliseconds = performance.now() - started;
      answer.result = first === undefined ? sample.read(outputs) : sameAs(first, outputs, sample);
      if (answered.isRandom === true) answer.result += '; another answer each time';
      if (first === undefined && sample.show !== undefined) answer.display = sample.show(outputs);
      first ??= outputs;
    } catch (error) {
      answer.error = described(error);
      delete answer.isZeros;
      // Another request would wait as long.
      if (isLost(error)) break;
    }
  }
  return answers;
}

const infer = (client: InferenceClient, model: string, { inputs, parameters }: SampleRequest): Promise<InferResult> =>
  client.infer(model, inputs, { parameters, timeoutMs: ASK_TIMEOUT_MS });

function sameAs(first: readonly Tensor[], outputs: readonly Tensor[], sample: SampleRequest): string {
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
