import type { RepositoryModel } from '../model';
import { addGolden, ASK_TIMEOUT_MS, isLost, whyNotSingly } from '../release/ask';
import { TritonHttpClient } from '../triton/http';
import { explainRequestFailure } from '../triton/load-failure';
import type { Tensor } from '../triton/tensor';
import { sampleFor, type Exhibit, type SampleRequest } from './sample-requests';

/** The answer of one model to one request. */
export interface SmokeTestResult {
  model: string;
  milliseconds: number;
  /** A short description; empty if there is an error. */
  result: string;
  error?: string;
  /** The next step after an error. */
  hint?: string;
  /** The request has only zeros, so an error may be right and does not mean that the model is not served. */
  isZeros?: true;
  /** Content for the page, if the answer is more than text. */
  exhibit?: Exhibit;
}

/**
 * Sends a model one request whose answer is shown. The agent has verified the model's answers before the model counts as
 * released.
 */
export async function askModel(httpUrl: string, model: RepositoryModel): Promise<SmokeTestResult> {
  const client = new TritonHttpClient(httpUrl);
  const { name } = model;
  const failed = (error: unknown): string => explainRequestFailure(name, (error as Error).message);
  const none = { model: name, milliseconds: 0, result: '' };
  try {
    let sample: SampleRequest;
    try {
      const config = await client.modelConfig(name);
      const reason = whyNotSingly(config);
      if (reason !== undefined) return { ...none, result: `was not asked: ${reason}` };
      sample = await sampleFor(model, config);
    } catch (error) {
      return { ...none, error: `cannot create a request: ${failed(error)}` };
    }
    const { inputs, parameters, isZeros, read, show } = sample;
    const started = performance.now();
    let outputs: Tensor[];
    try {
      ({ outputs } = await client.infer(name, inputs, { parameters, timeoutMs: ASK_TIMEOUT_MS }));
    } catch (error) {
      // Otherwise the model's process has ended.
      if (isZeros !== true || isLost(error)) return { ...none, error: failed(error) };
      const hint = `if zeros are not valid input, ${addGolden(name)}`;
      return { ...none, error: `the zero request failed: ${failed(error)}`, hint, isZeros };
    }
    const milliseconds = performance.now() - started;
    try {
      return { ...none, milliseconds, result: read(outputs), exhibit: show?.(outputs) };
    } catch (error) {
      return { ...none, milliseconds, error: failed(error) };
    }
  } finally {
    client.close();
  }
}
