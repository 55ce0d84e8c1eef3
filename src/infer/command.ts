import { join } from 'node:path';
import { EXIT } from '../cli/cli';
import { UserError } from '../core/errors';
import { formatDuration, formatTable } from '../core/format';
import { didYouMean } from '../core/nearest';
import { versionFile } from '../model/version-file';
import { TritonError, type InferenceClient, type InferOptions, type ModelIndexEntry } from '../triton/client';
import { TritonGrpcClient } from '../triton/grpc';
import { TritonHttpClient } from '../triton/http';
import { explainRequestFailure, withoutFrames } from '../triton/load-failure';
import { TritonModel } from '../triton/model';
import type { Tensor } from '../triton/tensor';
import { readLetters, transcripts } from '../media/letters';
import { labelledOutputs } from './model-metadata';
import type { PixelKind } from '../media/pictures';
import { buildRequest, describePictures, exampleInput, shortSoundHint, type SentPictures } from './request';
import {
  getTopClasses,
  classTable,
  exactValue,
  outputTable,
  resultJson,
  saveResult,
  similarities,
  type Class,
} from './results';
import { readSource, type InputFile } from './input-files';

/** Address of a server, and headers and timeout of the requests. */
export interface Connection {
  address: { url: string } | { grpc: string };
  headers: Record<string, string>;
  timeoutMs: number;
}

export interface InferCommand extends Connection {
  model: string;
  /** The inputs as on the command line. */
  inputs: readonly string[];
  version: number | undefined;
  /** Folder of the model repository. */
  repository: string;
  pixels: PixelKind | undefined;
  outputs: readonly string[] | undefined;
  /** Number of classes to show for outputs with labels. */
  top: number | undefined;
  out: string | undefined;
  json: boolean;
  /** Flags that a further command for the same server also needs: ` --url http://...`. */
  repeated: string;
}

/** Number of classes to show, unless the answer is saved. */
export const DEFAULT_TOP = 5;

/** Sends the request of the command line to one model, prints the answer and returns the exit code. */
export async function inferCommand(command: InferCommand): Promise<number> {
  const client = connect(command);
  try {
    const model = await openModel(client, command);
    if (command.inputs.length === 0) {
      process.stdout.write(
        `${takes(model)}\n\nnpm run infer -- ${model.name} ${exampleInput(model, command.repository)}${command.repeated}\n`,
      );
      return EXIT.ok;
    }
    requireSingleAnswers(model);
    const sources = command.inputs.map((input) =>
      readSource(
        input,
        model.metadata.inputs.map(({ name }) => name),
      ),
    );
    const request = await buildRequest(model, sources, {
      pixels: command.pixels,
      repository: command.repository,
      isClassifier: labelledOutputs(model).length > 0,
    });
    const inputs = model.inputs(request.values);
    // Before the answer, because a wrong format is also a cause of a rejected request.
    if (!command.json) for (const pictures of request.pictures) process.stderr.write(`${describePictures(pictures)}\n`);
    return await ask(model, { inputs, sources, pictures: request.pictures }, command);
  } finally {
    client.close();
  }
}

function connect({ address, headers }: Connection): InferenceClient {
  return 'url' in address
    ? new TritonHttpClient(address.url, { headers })
    : new TritonGrpcClient(address.grpc, { headers });
}

/** @throws UserError for a decoupled model, before anything is sent */
function requireSingleAnswers({ name, config }: TritonModel): void {
  if ((config['model_transaction_policy'] as { decoupled?: boolean } | undefined)?.decoupled !== true) return;
  throw new UserError(`${name} is decoupled: it answers a request any number of times, over a gRPC stream`, {
    hint: 'use the stream of tritonclient: docs/guides/python-client.md',
  });
}

async function openModel(client: InferenceClient, command: InferCommand): Promise<TritonModel> {
  const { model, version, timeoutMs } = command;
  try {
    return await TritonModel.open(client, model, { version, timeoutMs });
  } catch (error) {
    throw await explained(client, command, error);
  }
}

/** Adds a hint to the error of a call that reads models' descriptions. */
async function explained(client: InferenceClient, connection: Connection, error: unknown): Promise<unknown> {
  if (!(error instanceof TritonError)) return error;
  if (!error.answered) {
    return new UserError(error.message, { hint: await whereToAsk(connection, error), cause: error });
  }
  if (error.model === undefined || !/NOT_FOUND|404|UNAVAILABLE|400/.test(error.status)) return error;
  // Some servers do not permit every client to list their models.
  const index = await client.repositoryIndex({ timeoutMs: connection.timeoutMs }).catch(() => []);
  const hint = whatThereIs(error.model, index);
  return new UserError(error.message, { hint, cause: error });
}

/** Timeout of probing the other protocol. */
const LOOK_MS = 3000;

/** A hint for an address at which Triton did not answer. */
async function whereToAsk(connection: Connection, { status }: TritonError): Promise<string> {
  const local = 'start the local server with npm run local, or name another server with --url or --grpc';
  const isSilent = status === 'unreachable' || status === 'timeout';
  return (await otherProtocol(connection)) ?? (isSilent ? local : `the server at this address is not Triton; ${local}`);
}

/** A hint with the right flag if Triton speaks its other protocol at the address; otherwise undefined. */
async function otherProtocol({ address, headers }: Connection): Promise<string | undefined> {
  const [other, hint] =
    'url' in address
      ? [new TritonGrpcClient(address.url, { headers }), `gRPC; use --grpc ${address.url.replace('http://', '')}`]
      : [new TritonHttpClient(getHttp(address.grpc), { headers }), `HTTP; use --url ${getHttp(address.grpc)}`];
  try {
    return (await other.live({ timeoutMs: LOOK_MS })) ? `this address speaks ${hint}` : undefined;
  } catch {
    return undefined;
  } finally {
    other.close();
  }
}

const getHttp = (address: string): string => (address.includes('://') ? address : `http://${address}`);

/** A hint with the models or versions that are served, for a model or version that is not. */
function whatThereIs(model: string, index: readonly ModelIndexEntry[]): string | undefined {
  const ready = index.filter(({ state }) => state === 'READY');
  const versions = ready.filter(({ name }) => name === model).map(({ version }) => version);
  if (versions.length > 0) return `ready versions of ${model}: ${versions.join(', ')}`;
  const own = index.find(({ name }) => name === model);
  if (own !== undefined) {
    return `${model} is in the repository but not served${own.state === '' ? '' : `: ${own.state} ${withoutFrames(model, own.reason)}`.trimEnd()}`;
  }
  const names = [...new Set(ready.map(({ name }) => name))];
  return didYouMean(model, names) ?? (names.length === 0 ? undefined : `ready models: ${names.join(', ')}`);
}

/** The tensors of a request, and the arguments that they were made from. */
interface SentRequest {
  inputs: readonly Tensor[];
  sources: readonly InputFile[];
  pictures: readonly SentPictures[];
}

async function ask(
  model: TritonModel,
  { inputs, sources, pictures }: SentRequest,
  command: InferCommand,
): Promise<number> {
  const top = command.top ?? (command.out === undefined ? DEFAULT_TOP : 0);
  const labelled = top === 0 ? [] : labelledOutputs(model);
  const started = performance.now();
  const options = inferOptions(model, command, labelled, top);
  const result = await model.inferTensors(inputs, options).catch((error: unknown) => {
    throw rejected(model, shortSoundHint(sources), error);
  });
  const took = performance.now() - started;
  const classes: Record<string, Class[][]> = {};
  const plain: Tensor[] = [];
  for (const output of result.outputs) {
    if (labelled.includes(output.name) && output.datatype === 'BYTES') classes[output.name] = getTopClasses(output);
    else plain.push(output);
  }
  const letters = readLetters(versionFile(join(command.repository, model.name), Number(result.version), 'vocab.json'));
  const heard = letters === undefined ? undefined : transcripts(plain, letters);
  const answer = resultJson(result, classes, { texts: heard, pictures });
  if (command.out !== undefined) await saveResult(command.out, result, { pixels: command.pixels, json: answer });
  if (command.json) {
    process.stdout.write(`${JSON.stringify(answer, exactValue, 2)}\n`);
    return EXIT.ok;
  }
  const texts = sources.flatMap((source) => (source.kind === 'text' ? [source.text] : []));
  const files = sources.flatMap((source) => (source.kind === 'picture' ? [source.file] : []));
  const similar = similarities(plain, texts);
  const parts = [
    `${result.model}, version ${result.version}, answered in ${formatDuration(took)}`,
    ...Object.values(classes).map((rows) => classTable(rows, files)),
    ...(plain.length === 0 ? [] : [outputTable(plain)]),
    ...(similar === undefined ? [] : [similar]),
    ...(heard === undefined ? [] : [heard.map((text) => `text: ${JSON.stringify(text)}`).join('\n')]),
    ...(command.out === undefined ? [] : [`written to ${command.out}`]),
  ];
  process.stdout.write(`${parts.join('\n\n')}\n`);
  return EXIT.ok;
}

/** The error for a request that the model rejected, in words for the user. Other errors stay as they are. */
function rejected(model: TritonModel, hint: string | undefined, error: unknown): unknown {
  if (!(error instanceof TritonError) || !error.answered) return error;
  return new UserError(explainRequestFailure(model.name, error.message), { hint, cause: error });
}

function inferOptions(
  model: TritonModel,
  command: InferCommand,
  labelled: readonly string[],
  top: number,
): InferOptions {
  const { outputs, timeoutMs } = command;
  const known = model.metadata.outputs.map(({ name }) => name);
  for (const name of outputs ?? []) {
    if (!known.includes(name)) {
      throw new UserError(`--outputs ${name}: ${model.name} has no such output; allowed: ${known.join(', ')}`);
    }
  }
  if (outputs === undefined && labelled.length === 0) return { timeoutMs };
  const wanted = (outputs ?? known).map((name) => (labelled.includes(name) ? { name, classification: top } : { name }));
  return { timeoutMs, outputs: wanted };
}

/** The model's inputs and outputs, in a table. */
function takes(model: TritonModel): string {
  const { metadata, maxBatchSize } = model;
  const rows = [
    ...metadata.inputs.map((input) => ['input', input.name, input.datatype, `[${input.shape.join(', ')}]`]),
    ...metadata.outputs.map((output) => ['output', output.name, output.datatype, `[${output.shape.join(', ')}]`]),
  ];
  const batch = maxBatchSize > 0 ? `, batches of up to ${maxBatchSize}` : '';
  return `${metadata.name}, ${metadata.platform}, versions ${metadata.versions.join(', ')}${batch}; -1 means any length\n\n${formatTable(['', 'name', 'type', 'shape'], rows)}`;
}
