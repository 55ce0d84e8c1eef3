import type { RepositoryModel } from '../model';
import type { InferenceClient } from '../triton/client';
import { TritonGrpcClient } from '../triton/grpc';
import { TritonHttpClient } from '../triton/http';
import { encodeTensor, type Tensor } from '../triton/tensor';
import type { Exhibit } from './exhibits';
import { numbersOf, sampleFor, type Sample } from './samples';

/** What one model answered to one request. */
export interface Answer {
  model: string;
  protocol: 'HTTP' | 'gRPC';
  milliseconds: number;
  /** In a few words; empty when there is an error. */
  result: string;
  error?: string;
  /** For the page, where there is more to see than words. */
  exhibit?: Exhibit;
}

interface Client {
  protocol: Answer['protocol'];
  client: InferenceClient;
}

/** The same request twice may be summed up in another order inside the model; that moves the last digits only. */
const SAME_WITHIN = 1e-3;

/** Sends one request to each model over HTTP and the same one over gRPC, and checks that both answer alike. */
export async function askEachModel(
  endpoints: { httpUrl: string; grpcAddress: string },
  models: readonly RepositoryModel[],
): Promise<Answer[]> {
  const clients: Client[] = [
    { protocol: 'HTTP', client: new TritonHttpClient(endpoints.httpUrl) },
    { protocol: 'gRPC', client: new TritonGrpcClient(endpoints.grpcAddress) },
  ];
  try {
    const answers: Answer[] = [];
    for (const model of models) answers.push(...(await askModel(clients, model, models)));
    return answers;
  } finally {
    for (const { client } of clients) client.close();
  }
}

async function askModel(
  clients: readonly Client[],
  model: RepositoryModel,
  models: readonly RepositoryModel[],
): Promise<Answer[]> {
  let sample: Sample;
  try {
    sample = await sampleFor(model, models);
  } catch (error) {
    const message = `no request could be made: ${(error as Error).message}`;
    return clients.map(({ protocol }) => ({
      model: model.name,
      protocol,
      milliseconds: 0,
      result: '',
      error: message,
    }));
  }
  const answers: Answer[] = [];
  let first: Tensor[] | undefined;
  for (const { protocol, client } of clients) {
    const started = performance.now();
    const answer: Answer = { model: model.name, protocol, milliseconds: 0, result: '' };
    answers.push(answer);
    try {
      const { outputs } = await client.infer(model.name, sample.inputs);
      answer.milliseconds = performance.now() - started;
      answer.result = first === undefined ? sample.read(outputs) : sameAs(first, outputs, sample);
      if (first === undefined && sample.show !== undefined) answer.exhibit = sample.show(outputs);
      first ??= outputs;
    } catch (error) {
      answer.error = (error as Error).message;
    }
  }
  return answers;
}

function sameAs(first: readonly Tensor[], outputs: readonly Tensor[], sample: Sample): string {
  sample.read(outputs);
  for (const [i, output] of outputs.entries()) {
    const other = first[i];
    if (
      other?.name !== output.name ||
      other.datatype !== output.datatype ||
      String(other.shape) !== String(output.shape)
    ) {
      throw new Error(`answers other tensors than over HTTP (${output.name} instead of ${other?.name ?? 'none'})`);
    }
    if (Buffer.compare(encodeTensor(other), encodeTensor(output)) !== 0 && !isClose(other, output)) {
      throw new Error(`output ${output.name} differs from the one over HTTP`);
    }
  }
  return 'the same';
}

function isClose(a: Tensor, b: Tensor): boolean {
  if (a.datatype === 'BYTES') return false;
  const other = numbersOf(b);
  // A pixel may be rounded the other way.
  const allowed = a.datatype === 'UINT8' ? 1 : SAME_WITHIN;
  return numbersOf(a).every((value, i) => Math.abs(value - (other[i] ?? NaN)) <= allowed);
}
