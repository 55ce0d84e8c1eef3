import { abortable } from '../core/abort';
import { UserError } from '../core/errors';
import { formatCount } from '../core/format';
import {
  answeredRow,
  compareAnswer,
  comparesOnlyShapes,
  contradiction,
  decodeGolden,
  describeMismatch,
  requestsFor,
  rowProbes,
  withRounding,
  zeroInputs,
  type GoldenRequest,
  type Mismatch,
} from '../model/golden';
import type { ModelConfig } from '../model';
import { checksumOfBytes } from '../s3/checksum';
import type { S3Store } from '../s3/store';
import { TOO_LARGE, TritonError, type InferOptions } from '../triton/client';
import type { InferenceClient } from '../triton/http';
import { withoutFrames } from '../triton/load-failure';
import type { Tensor } from '../triton/tensor';
import type { ManifestModel } from './manifest';

/**
 * Timeout of one request, from its start to the complete answer. The first request may make the backend optimize the
 * model.
 */
export const ASK_TIMEOUT_MS = 120_000;

/**
 * How replicas were asked before the release: golden requests, or zeros if there are none. `impossible`: the model does
 * not support single requests.
 */
export type Asked = 'golden' | 'zeros' | 'zeros failed' | 'impossible';

type AskedClient = Pick<InferenceClient, 'modelConfig' | 'infer'>;

export interface AskOptions {
  /** Name of the replica, with which messages begin. */
  replica?: string | undefined;
  /** Whether the zero request was answered before, so that an error is a fault of the new model. */
  zerosWereAnswered: boolean;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  /**
   * Called with each answer to a golden request. With this callback all golden requests are sent, even after a wrong
   * answer, and none is repeated.
   */
  onAnswer?: ((request: GoldenRequest, answer: readonly Tensor[]) => void) | undefined;
}

export interface Answered {
  asked: Asked;
  /** A summary: `answered 3 golden requests`. */
  text: string;
  hint?: string;
}

export class WrongAnswerError extends UserError {
  override readonly name = 'WrongAnswerError';
  /** Set if values were compared. */
  readonly mismatch: Mismatch | undefined;

  constructor(message: string, options: { hint: string; cause?: unknown; mismatch?: Mismatch }) {
    super(message, options);
    this.mismatch = options.mismatch;
  }
}

/** The fields of a served configuration that matter to requests. */
type ServedConfig = Pick<
  ModelConfig,
  | 'backend'
  | 'max_batch_size'
  | 'input'
  | 'output'
  | 'batch_input'
  | 'batch_output'
  | 'sequence_batching'
  | 'model_transaction_policy'
>;

/**
 * Sends each served version its golden requests, or the zero request if it has none; the first request twice, because an
 * answer must depend on the request alone; and a golden row beside another row, because it must not depend on other rows.
 */
export async function askModel(
  client: AskedClient,
  model: { name: string; served: readonly number[] },
  golden: readonly GoldenRequest[],
  options: AskOptions,
): Promise<Answered> {
  const config = (await client.modelConfig(model.name, model.served.at(-1))) as unknown as ServedConfig;
  const reason = whyNotSingly(config);
  if (reason !== undefined) return { asked: 'impossible', text: `was not asked: ${reason}` };
  let answered = 0;
  let empty = 0;
  let zeros: Answered | undefined;
  for (const version of model.served) {
    const asker = new VersionAsker(client, model.name, version, config, options);
    const requests = requestsFor(golden, version);
    await asker.askAll(requests);
    answered += requests.length;
    empty += requests.filter(comparesOnlyShapes).length;
    if (requests.length > 0) continue;
    const result = await asker.askZeros(options.onAnswer === undefined);
    // A version that fails overrides the results of the other versions.
    if (zeros === undefined || result.asked === 'zeros failed') zeros = result;
  }
  const text = `answered ${formatCount(answered, 'golden request')}${onlyShapes(empty)}`;
  if (zeros === undefined) return { asked: 'golden', text };
  return answered === 0 ? zeros : { ...zeros, text: `${text}; ${zeros.text}` };
}

const onlyShapes = (requests: number): string =>
  requests === 0 ? '' : ` (${requests} without values: the expected outputs have no elements)`;

/** Why the model does not support single requests; undefined if it does. */
export function whyNotSingly({
  sequence_batching: sequence,
  model_transaction_policy: policy,
}: ServedConfig): string | undefined {
  if (sequence !== undefined) return 'it uses sequence batching, so a request needs its sequence';
  return policy?.decoupled === true ? 'it is decoupled, so a request can have any number of answers' : undefined;
}

class VersionAsker {
  constructor(
    private readonly client: AskedClient,
    private readonly name: string,
    private readonly version: number,
    private readonly config: ServedConfig,
    private readonly options: AskOptions,
  ) {}

  /** @throws WrongAnswerError for the first wrong answer */
  async askAll(requests: readonly GoldenRequest[]): Promise<void> {
    let wrong: WrongAnswerError | undefined;
    for (const request of requests) {
      try {
        await this.askGolden(request);
      } catch (error) {
        if (!(error instanceof WrongAnswerError) || this.options.onAnswer === undefined) throw error;
        wrong ??= error;
      }
    }
    if (wrong !== undefined) throw wrong;
    const [first] = requests;
    if (first === undefined || this.options.onAnswer !== undefined) return;
    await this.askGolden(first, AGAIN);
    await this.askRows(requests);
  }

  /**
   * Sends a golden row beside other rows.
   * @throws WrongAnswerError if its answer differs, or if the model refuses a batch of equal rows
   */
  private async askRows(requests: readonly GoldenRequest[]): Promise<void> {
    const probes = rowProbes(requests, this.config);
    for (const probe of probes) {
      const { inputs, where, expected } = probe;
      let answer: Tensor[];
      try {
        answer = await this.infer(inputs, {
          outputs: expected.outputs.map(({ name }) => ({ name })),
          parameters: expected.parameters,
        });
      } catch (cause) {
        // The model may refuse a changed row, but not a row that it answers alone. A program gives no wrong answer then.
        if ((probe !== probes.at(-1) || !this.isNetwork) && !isLost(cause)) continue;
        const reason = withoutFrames(this.name, (cause as Error).message);
        throw this.failed(
          `${this.where} fails on a row of golden request ${expected.name} ${where}: ${reason}`,
          cause,
          ROWS,
        );
      }
      const mismatch = compareAnswer(expected, answeredRow(probe, answer));
      if (mismatch === undefined && probe.isEnough === true) return;
      if (mismatch === undefined) continue;
      throw new WrongAnswerError(
        `${this.where} mixes the rows of a batch: a row of golden request ${expected.name} gets another answer ${where}: ` +
          describeMismatch(mismatch),
        { hint: ROWS, mismatch },
      );
    }
  }

  /** @throws WrongAnswerError */
  private async askGolden(request: GoldenRequest, hintAgain?: string): Promise<void> {
    const { inputs, outputs, parameters } = request;
    const hint =
      hintAgain ??
      `fix ${this.name} and publish it again (the version number can be reused); if the answer is right, ` +
        `correct ${this.name}/golden/${request.name}.json; --no-ask publishes without verifying answers`;
    let answer: Tensor[];
    try {
      answer = await this.infer(inputs, {
        outputs: outputs.map(({ name }) => ({ name })),
        parameters,
      });
    } catch (cause) {
      const message = `${this.where} did not answer golden request ${request.name}: ${withoutFrames(this.name, (cause as Error).message)}`;
      throw this.failed(message, cause, hint);
    }
    this.options.onAnswer?.(request, answer);
    const mismatch = compareAnswer(request, answer);
    if (mismatch === undefined) return;
    const wrong = hintAgain === undefined ? 'a wrong answer' : 'another answer when it is asked again';
    const message = `${this.where} gives ${wrong} to golden request ${request.name}: ${describeMismatch(mismatch)}`;
    throw new WrongAnswerError(message, { hint, mismatch });
  }

  /**
   * @throws WrongAnswerError if the answer contradicts the configuration. Also if the request fails, when the server or the
   *   model's process ended or did not answer in time, or when zeros were answered before.
   */
  async askZeros(twice: boolean): Promise<Answered> {
    const { zerosWereAnswered } = this.options;
    const { name, version } = this;
    const golden = addGolden(name, version);
    try {
      const inputs = zeroInputs(this.config);
      const answer = await this.infer(inputs, {});
      const wrong = contradiction(this.config, answer);
      if (wrong === undefined) {
        const other = twice ? findDifference(answer, await this.infer(inputs, {})) : undefined;
        if (other === undefined) return { asked: 'zeros', text: 'answered zeros' };
        const text = `gives another answer when it is asked again: ${describeMismatch(other)}`;
        // A program may draw random numbers on purpose.
        if (!this.isNetwork) return { asked: 'zeros', text: `answered zeros, but ${text}` };
        throw new WrongAnswerError(`${this.where} ${text}`, { hint: AGAIN, mismatch: other });
      }
      throw new WrongAnswerError(`${this.where} contradicts its configuration: ${wrong}`, {
        hint: `correct the output in the configuration of ${this.name}, or the model`,
      });
    } catch (cause) {
      if (cause instanceof WrongAnswerError) throw cause;
      const reason = withoutFrames(this.name, (cause as Error).message);
      const message = `${this.where} failed on the zero request: ${reason}`;
      if (contradicts(reason)) {
        throw this.failed(message, cause, `correct the output in the configuration of ${this.name}, or the model`);
      }
      if (this.isNetwork && /when training/.test(reason)) throw this.failed(message, cause, AGAIN);
      if (isLost(cause)) throw this.failed(message, cause, `fix ${this.name}; if zeros are not valid input, ${golden}`);
      if (zerosWereAnswered) {
        const hint = `the model answered zeros before: fix ${this.name}; if zeros are no longer valid input, ${golden}`;
        throw this.failed(message, cause, hint);
      }
      this.options.signal?.throwIfAborted();
      const text = `the zero request failed: ${reason}`;
      return { asked: 'zeros failed', text, hint: `if zeros are not valid input, ${golden}` };
    }
  }

  private async infer(inputs: readonly Tensor[], options: InferOptions): Promise<Tensor[]> {
    const { signal, timeoutMs = ASK_TIMEOUT_MS } = this.options;
    const { outputs } = await abortable(
      this.client.infer(this.name, inputs, { ...options, version: this.version, timeoutMs }),
      signal,
    );
    return outputs;
  }

  private failed(message: string, cause: unknown, hint: string): WrongAnswerError {
    this.options.signal?.throwIfAborted();
    const isTooLarge = cause instanceof TritonError && cause.status === TOO_LARGE;
    return new WrongAnswerError(message, { hint: isTooLarge ? (cause.hint ?? hint) : hint, cause });
  }

  private get isNetwork(): boolean {
    return NETWORKS.includes(this.config.backend ?? '');
  }

  private get where(): string {
    const { replica } = this.options;
    return `${replica === undefined ? '' : `${replica}: `}${this.name} version ${this.version}`;
  }
}

/** The next step if zeros are no valid input of a model. */
export const addGolden = (model: string, version?: number): string =>
  `add golden requests with valid input: ${model}/golden/CASE.json` +
  (version === undefined ? '' : ` (for this version only: ${model}/golden/${version}/CASE.json)`);

/** Backends of files that hold a network, whose answer depends on its inputs alone. */
const NETWORKS: readonly string[] = ['pytorch', 'onnxruntime', 'tensorrt'];

const AGAIN =
  'a network that was saved in training mode answers so: call eval() before it is saved; remove random numbers and state that calls change';
const ROWS =
  'Triton joins requests of different clients into one batch: compute each row by itself (no softmax, mean or sort over the batch), or set max_batch_size: 0';

/** How a second answer to the same request differs from the first; undefined if it does not, but for rounding. */
function findDifference(first: readonly Tensor[], second: readonly Tensor[]): Mismatch | undefined {
  const outputs = first.map((tensor) => ({ name: tensor.name, tensor, tolerance: { absolute: 0, relative: 0 } }));
  return compareAnswer({ outputs: withRounding(outputs) }, second);
}

/** Whether the message is that of a backend which compares answers with the configuration itself. */
const contradicts = (message: string): boolean =>
  /\boutputs? .*\b(expected|but forward returned|is a scalar|model provides)\b|output must be of type|does not implement `?execute|unexpected (data ?type|shape)\b[^']*\boutput\b/i.test(
    message,
  );

/** Whether the request ended the server or the model's process on it, or was not answered in time. */
export function isLost(cause: unknown): boolean {
  if (!(cause instanceof TritonError)) return false;
  return !cause.answered || /stub process.*not healthy|failed to.*stub process/i.test(cause.message);
}

/**
 * The golden requests of a model of a release, from S3.
 * @throws UserError if they are missing or are not the bytes that the release names
 */
export async function readGoldenRequests(
  model: string,
  golden: ManifestModel['golden'],
  store: Pick<S3Store, 'bucket' | 'get'>,
): Promise<GoldenRequest[]> {
  if (golden === undefined) return [];
  const where = `s3://${store.bucket}/${golden.key}`;
  const found = await store.get(golden.key, golden);
  if (found !== undefined && checksumOfBytes(found.body) === golden.checksum) return decodeGolden(found.body, where);
  throw new UserError(
    `cannot read the golden requests of ${model}: ${where} ${found === undefined ? 'is missing' : 'has other bytes than the release names'}`,
    { hint: 'publish the model again, or skip the verification of answers with --no-ask' },
  );
}
