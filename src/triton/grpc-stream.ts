import type { ClientHttp2Stream } from 'node:http2';
import { getTimeoutMs, TritonError, unreadable, type CallOptions, type InferOptions, type InferResult } from './client';
import type { GrpcChannel } from './grpc-channel';
import { frame, uncompressedMessage } from './grpc-frames';
import { decodeAnswer, inferRequest, inferResult, type InferAnswer } from './grpc-tensors';
import { deadlineIn } from './retry';
import type { Tensor } from './tensor';

const METHOD = 'ModelStreamInfer';

/** One answer of a stream, or the error of one of its requests. The stream continues after an error. */
export type StreamAnswer =
  | { result: InferResult; error?: undefined; isFinal: boolean }
  /** The request's id; empty if the server does not report it. */
  | { result?: undefined; error: TritonError; requestId: string };

/**
 * Requests and answers over one call (ModelStreamInfer). A decoupled model sends any number of answers to a request.
 * Requests of a sequence reach the model in order. Answers are queued here until they are read.
 */
export class InferStream implements AsyncIterable<StreamAnswer> {
  private readonly stream: ClientHttp2Stream;
  private readonly answers: (Promise<StreamAnswer> | StreamAnswer)[] = [];
  private wake: () => void = () => undefined;
  private outcome: 'open' | 'ended' | TritonError = 'open';

  /** @param options.timeoutMs from now to the last answer */
  constructor(channel: GrpcChannel, options: CallOptions = {}) {
    const timeoutMs = getTimeoutMs(options);
    const settle = (outcome: 'ended' | TritonError): void => {
      this.outcome = outcome;
      this.wake();
    };
    this.stream = channel.open({ method: METHOD, timeoutMs }, deadlineIn(timeoutMs), {
      onMessage: (message, encoding) => {
        this.answers.push(
          message.compressed ? uncompressedMessage(message, encoding).then(readAnswer) : readAnswer(message.bytes),
        );
        this.wake();
      },
      onEnd: () => settle('ended'),
      onError: settle,
    });
  }

  /**
   * Sends a request. Iterate over the stream for its answers.
   * @returns false if the connection is slower than the requests; then wait for `drained`
   */
  send(model: string, inputs: readonly Tensor[], options: InferOptions = {}): boolean {
    const parts = frame(inferRequest(model, inputs, options));
    return parts.map((part) => this.stream.write(part)).every(Boolean);
  }

  drained(): Promise<void> {
    return this.stream.writableNeedDrain
      ? new Promise((resolve) => {
          this.stream.once('drain', resolve);
          this.stream.once('close', resolve);
        })
      : Promise.resolve();
  }

  /** Ends the requests. Iteration ends after the last answer. */
  end(): void {
    this.stream.end();
  }

  /** Aborts the stream; pending answers are lost. */
  close(): void {
    this.stream.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamAnswer, void, void> {
    try {
      for (;;) {
        const next = this.answers.shift();
        if (next !== undefined) yield await next;
        else if (this.outcome === 'ended') return;
        else if (this.outcome !== 'open') throw this.outcome;
        else await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      this.close();
    }
  }
}

function readAnswer(bytes: Buffer): StreamAnswer {
  try {
    const answer = decodeAnswer(METHOD, bytes) as { error_message: string; infer_response: InferAnswer | null };
    const response = answer.infer_response;
    if (answer.error_message !== '') {
      const error = new TritonError(answer.error_message, {
        status: 'failed',
        model: response?.model_name,
        answered: true,
      });
      return { error, requestId: response?.id ?? '' };
    }
    if (response === null) throw new Error('it has no response');
    // Models that answer each request once do not mark their answer as the final one.
    const isFinal = response.parameters['triton_final_response']?.bool_param ?? true;
    return { result: inferResult(response), isFinal };
  } catch (cause) {
    return { error: unreadable(undefined, cause), requestId: '' };
  }
}
