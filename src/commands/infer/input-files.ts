import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname } from 'node:path';
import { UserError } from '../../core/errors';
import { didYouMean } from '../../core/nearest';
import type { Nested } from '../../triton/tensor-from-json';
import type { Tensor } from '../../triton/tensor';
import { parseExactJson } from '../../core/exact-json';
import { readNpy } from '../../model/media/npy';

/** Content of one argument of the command line. `name` is its input, if the argument names one. */
export type InputFile = { name: string | undefined } & (
  | { kind: 'picture'; file: string }
  | { kind: 'array'; tensor: Tensor }
  | { kind: 'json'; value: Nested | Record<string, Nested> }
  | { kind: 'text'; text: string }
);

/** File extensions of pictures. */
export const PICTURES = ['.jpg', '.jpeg', '.png', '.webp', '.gif', '.tif', '.tiff', '.avif'];

/** Readers of files, by file extension. */
const READERS: Record<string, (file: string) => InputFile> = {
  ...Object.fromEntries(PICTURES.map((end) => [end, (file: string) => ({ name: undefined, kind: 'picture', file })])),
  '.npy': (file) => ({ name: undefined, kind: 'array', tensor: readNpy(file, readBytes(file)) }),
  '.json': (file) => jsonSource(parseJson(file, readBytes(file).toString())),
  '.txt': (file) => textSource(file, readBytes(file).toString().trim()),
};

/**
 * Reads an argument: a file (by its extension), a JSON array or object, or otherwise a text. A prefix `NAME=` names the
 * input, and then any JSON value is accepted: `input__0=1`.
 * @param inputs names of the model's inputs
 * @throws UserError if a file cannot be read in the format of its extension, a text is empty, or NAME is not one of the
 *   model's inputs
 */
export function readSource(argument: string, inputs: readonly string[]): InputFile {
  const at = argument.indexOf('=');
  const before = argument.slice(0, Math.max(at, 0));
  const value = argument.slice(at + 1);
  const name = inputs.find((input) => input === before);
  if (name === undefined) {
    refuseOtherName(before, value, inputs);
    if (isJson(argument, /^\s*[[{]/)) return jsonSource(parseJson('the input', argument));
    if (/^\s*(\{|\[\s*[[{])/.test(argument)) parseJson('the input', argument);
    return readValue(argument) ?? textSource('the input', argument);
  }
  const source =
    readValue(value) ?? (isJson(value) ? { kind: 'json', value: parseExactJson(value) as Nested } : undefined);
  if (source === undefined && /^\s*[[{]/.test(value)) parseJson(`${name}=`, value);
  return { ...(source ?? textSource(`${name}=`, value)), name };
}

/** Refuses an argument that can only be meant as NAME=VALUE. Other arguments of the form `a=b` may be texts. */
function refuseOtherName(name: string, value: string, inputs: readonly string[]): void {
  if (!/^[\w.-]+$/.test(name) || !(/^\s*[[{]/.test(value) || existsSync(value))) return;
  const hint = didYouMean(name, inputs);
  throw new UserError(`the model has no input ${name}; allowed: ${inputs.join(', ')}`, { hint });
}

function readValue(value: string): InputFile | undefined {
  const read = READERS[extname(value).toLowerCase()];
  if (existsSync(value)) {
    if (statSync(value).isDirectory())
      throw new UserError(`${value} is a folder`, { hint: 'name the files in this folder' });
    if (read !== undefined) return read(value);
    throw new UserError(`${value}: unsupported file type; allowed: ${Object.keys(READERS).join(' ')}`);
  }
  // "See report.txt" is a text; a value without a space is the name of a missing file.
  if (read !== undefined && !/\s/.test(value)) throw new UserError(`the file ${value} does not exist`);
  return undefined;
}

const jsonSource = (value: Nested | Record<string, Nested>): InputFile => ({ name: undefined, kind: 'json', value });

/** Refuses an empty text, because the model would compute a meaningless answer. */
function textSource(what: string, text: string): InputFile {
  if (text.trim() !== '') return { name: undefined, kind: 'text', text };
  throw new UserError(`${what} is empty`, {
    hint: 'give a text or a file; to send an empty string, write NAME=[""]',
  });
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw new UserError(`cannot read ${file}: ${(cause as Error).message}`, { cause });
  }
}

function parseJson(file: string, text: string): Nested | Record<string, Nested> {
  const hint = 'write valid JSON: [[1, 2]], or {"NAME": [[1, 2]]} for several inputs';
  let value: Nested | Record<string, Nested>;
  try {
    value = parseExactJson(text) as typeof value;
  } catch (cause) {
    throw new UserError(`${file}: ${(cause as Error).message}`, { hint, cause });
  }
  const [name] = Object.entries(isRecord(value) ? value : {}).find(([, one]) => isRecord(one)) ?? [];
  if (name !== undefined) throw new UserError(`${file}: the value of "${name}" is an object`, { hint });
  return value;
}

/** Whether a value is an object, not an array or an element. */
export const isRecord = (value: Nested | Record<string, Nested>): value is Record<string, Nested> =>
  Object(value) === value && !Array.isArray(value) && !Buffer.isBuffer(value);

function isJson(text: string, beginning = /^/): boolean {
  if (!beginning.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
