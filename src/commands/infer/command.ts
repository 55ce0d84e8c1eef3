import { EXIT } from '../../cli/cli';
import { UserError } from '../../core/errors';
import { exactValue } from '../../core/exact-json';
import { formatDuration, formatTable } from '../../core/format';
import { didYouMean } from '../../core/nearest';
import { TritonError, type InferOptions, type ModelIndexEntry } from '../../triton/client';
import { TritonHttpClient, type InferenceClient } from '../../triton/http';
import { explainRequestFailure, withoutFrames } from '../../triton/load-failure';
import type { Tensor } from '../../triton/tensor';
import type { PixelKind } from '../../model/media/pictures';
import { inputsFor, openModel, type ServedModel } from './model';
import { buildRequest, describePictures, exampleInput, type SentPictures } from './request';
import { getTopClasses, classTable, outputTable, resultJson, saveResult, similarities, type Class } from './results';
import { readSource, type InputFile } from './input-files';

/** Address of a server, and headers and timeout of the requests. */
export interface Connection {
  url: string;
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
  const client = new TritonHttpClient(command.url, { headers: command.headers });
  try {
    const model = await openModel(client, command.model, command).catch(async (error: unknown) => {
      throw await explained(client, command, error);
    });
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
        model.inputs.map(({ name }) => name),
      ),
    );
    const request = await buildRequest(model, sources, command);
    const inputs = inputsFor(model, request.values);
    // Before the answer, because a wrong format is also a cause of a rejected request.
    if (!command.json) for (const pictures of request.pictures) process.stderr.write(`${describePictures(pictures)}\n`);
    return await ask(client, model, { inputs, sources, pictures: request.pictures }, command);
  } finally {
    client.close();
  }
}

/** @throws UserError for a decoupled model, before anything is sent */
function requireSingleAnswers({ name, isDecoupled }: ServedModel): void {
  if (!isDecoupled) return;
  throw new UserError(`${name} is decoupled: it answers a request any number of times, over a gRPC stream`, {
    hint: 'use the stream of tritonclient: docs/client.md',
  });
}

/** Adds a hint to the error of a call that reads models' descriptions. */
async function explained(client: InferenceClient, connection: Connection, error: unknown): Promise<unknown> {
  if (!(error instanceof TritonError)) return error;
  if (!error.answered) {
    return new UserError(error.message, { hint: whereToAsk(error), cause: error });
  }
  if (error.model === undefined || !/404|400/.test(error.status)) return error;
  // Some servers do not permit every client to list their models.
  const index = await client.repositoryIndex({ timeoutMs: connection.timeoutMs }).catch(() => []);
  const hint = whatThereIs(error.model, index);
  return new UserError(error.message, { hint, cause: error });
}

/** A hint for an address at which Triton did not answer. */
function whereToAsk({ status }: TritonError): string {
  const local = 'start the local server with npm run local, or name another server with --url';
  if (status === 'unreachable' || status === 'timeout') return local;
  return `this address does not speak Triton's HTTP; ${local}`;
}

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
  client: InferenceClient,
  model: ServedModel,
  { inputs, sources, pictures }: SentRequest,
  command: InferCommand,
): Promise<number> {
  const top = command.top ?? (command.out === undefined ? DEFAULT_TOP : 0);
  const labelled = top === 0 ? [] : model.labelledOutputs;
  const started = performance.now();
  const options = inferOptions(model, command, labelled, top);
  const result = await client.infer(model.name, inputs, options).catch((error: unknown) => {
    if (!(error instanceof TritonError) || !error.answered) throw error;
    throw new UserError(explainRequestFailure(model.name, error.message), { cause: error });
  });
  const took = performance.now() - started;
  const classes: Record<string, Class[][]> = {};
  const plain: Tensor[] = [];
  for (const output of result.outputs) {
    if (labelled.includes(output.name) && output.datatype === 'BYTES') classes[output.name] = getTopClasses(output);
    else plain.push(output);
  }
  const answer = resultJson(result, classes, pictures);
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
    ...(command.out === undefined ? [] : [`written to ${command.out}`]),
  ];
  process.stdout.write(`${parts.join('\n\n')}\n`);
  return EXIT.ok;
}

function inferOptions(
  model: ServedModel,
  command: InferCommand,
  labelled: readonly string[],
  top: number,
): InferOptions {
  const { outputs, timeoutMs, version } = command;
  const known = model.outputs.map(({ name }) => name);
  for (const name of outputs ?? []) {
    if (!known.includes(name)) {
      throw new UserError(`--outputs ${name}: ${model.name} has no such output; allowed: ${known.join(', ')}`);
    }
  }
  if (outputs === undefined && labelled.length === 0) return { timeoutMs, version };
  const wanted = (outputs ?? known).map((name) => (labelled.includes(name) ? { name, classification: top } : { name }));
  return { timeoutMs, version, outputs: wanted };
}

/** The model's inputs and outputs, in a table. */
function takes({ name, platform, versions, inputs, outputs, maxBatchSize }: ServedModel): string {
  const rows = [
    ...inputs.map((input) => ['input', input.name, input.datatype, `[${input.shape.join(', ')}]`]),
    ...outputs.map((output) => ['output', output.name, output.datatype, `[${output.shape.join(', ')}]`]),
  ];
  const batch = maxBatchSize > 0 ? `, batches of up to ${maxBatchSize}` : '';
  return `${name}, ${platform}, versions ${versions.join(', ')}${batch}; -1 means any length\n\n${formatTable(['', 'name', 'type', 'shape'], rows)}`;
}
