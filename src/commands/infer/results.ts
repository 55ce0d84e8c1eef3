import { writeFileSync } from 'node:fs';
import { extname } from 'node:path';
import { UserError } from '../../core/errors';
import { exactValue } from '../../core/exact-json';
import { formatTable } from '../../core/format';
import { writeImage } from '../../model/media/image';
import type { InferResult } from '../../triton/client';
import { toNested } from '../../triton/tensor-from-json';
import type { Tensor } from '../../triton/tensor';
import { writeNpy } from '../../model/media/npy';
import { decodePicture, pictureLayout, usualPixels, type PixelKind } from '../../model/media/pictures';
import type { SentPictures } from './request';

/** One class of Triton's classification extension. */
export interface Class {
  score: number;
  index: number;
  /** Empty if the model has no labels. */
  label: string;
}

/** Classes of each row, best first, from BYTES `score:index:label` [rows, classes] or [classes]. */
export function getTopClasses(output: Tensor): Class[][] {
  const rows = (output.shape.length > 1 ? toNested(output) : [toNested(output)]) as string[][];
  return rows.map((row) =>
    row.map((text) => {
      const [score = '', index = '', ...label] = text.split(':');
      return { score: Number(score), index: Number(index), label: label.join(':') };
    }),
  );
}

/** A table of the classes of each row; `names` are the files that the rows came from. */
export function classTable(rows: readonly Class[][], names: readonly string[]): string {
  return rows
    .map((classes, i) => {
      const lines = classes.map(({ score, index, label }) => [score.toFixed(3), String(index), label]);
      const title = rows.length > 1 ? `${names[i] ?? `row ${i + 1}`}\n` : '';
      return `${title}${formatTable(['score', 'class', 'label'], lines)}`;
    })
    .join('\n\n');
}

/**
 * A table of the outputs: name, data type, shape and a summary of the values, with a line for each of the first 4 rows.
 */
export function outputTable(outputs: readonly Tensor[]): string {
  const rows = outputs.flatMap((output) =>
    summary(output).map((line, i) =>
      i === 0 ? [output.name, output.datatype, `[${output.shape.join(', ')}]`, line] : ['', '', '', line],
    ),
  );
  return formatTable(['output', 'type', 'shape', 'values'], rows);
}

const SHOWN = 4;

/** The first values of the first rows and, for numbers, the range and mean of all values. */
function summary(output: Tensor): string[] {
  if (output.data.length === 0) return ['none'];
  const lines = firstRows(output);
  if (output.datatype === 'BYTES') return lines;
  const range = `(${getRange(output)})`;
  return lines.length === 1 ? [`${lines[0]} ${range}`] : [...lines, range];
}

function firstRows({ shape, data }: Tensor): string[] {
  const length = shape.at(-1) ?? 1;
  const rows = data.length / length;
  const lines = Array.from({ length: Math.min(rows, SHOWN) }, (_, row) => {
    const values = data.slice(row * length, row * length + Math.min(length, SHOWN));
    const first = Array.from<number | bigint | Buffer, string>(values, shownValue).join(', ');
    return length > SHOWN ? `${first}, ...` : first;
  });
  return rows > SHOWN ? [...lines, '...'] : lines;
}

const shownValue = (value: number | bigint | Buffer): string =>
  Buffer.isBuffer(value) ? JSON.stringify(value.toString()) : short(value);

function getRange(output: Exclude<Tensor, { datatype: 'BYTES' }>): string {
  const values = Array.from<number | bigint>(output.data);
  let [least, most]: [number | bigint, number | bigint] = [Infinity, -Infinity];
  let [sum, odd] = [0, 0];
  for (const value of values) {
    if (!Number.isFinite(Number(value))) odd += 1;
    if (value < least) least = value;
    if (value > most) most = value;
    sum += Number(value);
  }
  if (odd > 0) return `${odd} of ${values.length} values are not finite`;
  return `from ${short(least)} to ${short(most)}, mean ${short(sum / values.length)}`;
}

const short = (value: number | bigint): string =>
  typeof value === 'bigint' || Number.isInteger(value) ? String(value) : Number(value.toPrecision(4)).toString();

/**
 * A table of the cosine similarity of each pair of rows of an embedding. Undefined if no output has one row per text,
 * or if the rows do not have norm 1, as embeddings do.
 */
export function similarities(outputs: readonly Tensor[], texts: readonly string[]): string | undefined {
  const embedding = outputs.find(({ datatype, shape }) => datatype === 'FP32' && shape.length === 2);
  const [rows = 0, size = 0] = embedding?.shape ?? [];
  if (embedding === undefined || rows < 2 || rows !== texts.length) return undefined;
  const values = embedding.data as Float32Array;
  const product = (a: number, b: number): number => {
    let sum = 0;
    for (let i = 0; i < size; i += 1) sum += (values[a * size + i] ?? 0) * (values[b * size + i] ?? 0);
    return sum;
  };
  const lines: string[][] = [];
  for (let a = 0; a < rows; a += 1) {
    if (Math.abs(product(a, a) - 1) > 1e-3) return undefined;
    for (let b = a + 1; b < rows; b += 1) lines.push([product(a, b).toFixed(3), texts[a] ?? '', texts[b] ?? '']);
  }
  return formatTable(['similarity', 'text', 'other text'], lines);
}

/**
 * The whole answer as JSON for programs. Outputs whose classes were requested are in `outputs` as the server sent them,
 * BYTES `score:index:label`, and in `classes`.
 */
export function resultJson(
  { model, version, outputs }: InferResult,
  classes: Record<string, Class[][]>,
  pictures: readonly SentPictures[],
): object {
  return {
    model,
    version,
    outputs: outputs.map((output) => ({
      name: output.name,
      datatype: output.datatype,
      shape: output.shape,
      data: toNested(output),
    })),
    classes: Object.keys(classes).length === 0 ? undefined : classes,
    pictures: pictures.length === 0 ? undefined : pictures,
  };
}

/** File extensions that saveResult supports. */
export const SAVED_AS = ['.png', '.jpg', '.jpeg', '.webp', '.npy', '.json'];

/**
 * Writes the outputs to a file in the format of its extension.
 * @param options.json the answer as `resultJson` returns it, for a .json file
 */
export async function saveResult(
  file: string,
  result: InferResult,
  { pixels, json }: { pixels: PixelKind | undefined; json: object },
): Promise<void> {
  const end = extname(file).toLowerCase();
  if (end === '.json') {
    writeFileSync(file, `${JSON.stringify(json, exactValue, 2)}\n`);
    return;
  }
  const isPicture = end !== '.npy';
  const output = theOne(
    isPicture ? result.outputs.filter((one) => pictureLayout(one) !== undefined) : result.outputs,
    result,
  );
  if (!isPicture) {
    writeFileSync(file, writeNpy(output));
    return;
  }
  await writeImage(file, decodePicture(output, pixels ?? usualPixels(output.datatype)));
}

function theOne(candidates: readonly Tensor[], { model, outputs }: InferResult): Tensor {
  const [only, ...others] = candidates;
  if (only !== undefined && others.length === 0) return only;
  const names = (only === undefined ? outputs : candidates).map(({ name }) => name).join(', ');
  throw new UserError(
    only === undefined
      ? `${model} has no picture among its outputs: ${names}`
      : `${model} has several outputs: ${names}`,
    {
      hint: only === undefined ? 'write a .npy or .json file' : 'choose the output to write with --outputs NAME',
    },
  );
}
