import { existsSync, readFileSync } from 'node:fs';
import { UserError } from '../core/errors';
import type { Tensor } from '../triton/tensor';

/** Letters of a speech recogniser, by their index in its output. */
export interface Letters {
  names: ReadonlyMap<number, string>;
  blank: number;
}

/** Names of the CTC blank in published vocabularies, which use the padding token. */
const BLANKS = ['<pad>', '[PAD]'];
const SPACE = '|';
/** Special tokens, which are not letters: `<unk>`, `[UNK]`, `</s>`. */
const SPECIAL = /^(<.+>|\[.+\])$/;

/**
 * @param file a `vocab.json` in the format of Hugging Face, which maps letters to indices
 * @returns undefined if the file does not exist
 */
export function readLetters(file: string): Letters | undefined {
  if (!existsSync(file)) return undefined;
  let places: [string, unknown][];
  try {
    places = Object.entries(JSON.parse(readFileSync(file, 'utf8')) as object);
  } catch (cause) {
    throw new UserError(`${file} is not JSON: ${(cause as Error).message}`, { cause });
  }
  const wrong = places.find(([, place]) => !Number.isInteger(place));
  const blank = places.find(([letter]) => BLANKS.includes(letter))?.[1];
  if (wrong !== undefined || blank === undefined) {
    throw new UserError(
      wrong === undefined
        ? `${file} has no CTC blank`
        : `${file}: ${JSON.stringify(wrong[0])} is ${JSON.stringify(wrong[1])}, not a number`,
      { hint: `map each letter to its index in the output, including ${BLANKS.join(' or ')}` },
    );
  }
  return { names: new Map(places.map(([letter, place]) => [place as number, letter])), blank: blank as number };
}

/**
 * The text of each row of logits FP32 [rows, frames, letters], by greedy CTC: takes the best letter of each frame,
 * merges repeats and drops blanks.
 * @returns undefined if no output has these letters
 */
export function transcripts(outputs: readonly Tensor[], { names, blank }: Letters): string[] | undefined {
  const places = Math.max(...names.keys()) + 1;
  const logits = outputs.find(
    ({ datatype, shape }) => datatype === 'FP32' && shape.length === 3 && (shape[2] ?? 0) >= places,
  );
  if (logits === undefined) return undefined;
  const [rows = 0, frames = 0, size = 0] = logits.shape;
  const values = logits.data as Float32Array;
  return Array.from({ length: rows }, (_, row) => {
    let text = '';
    let last = blank;
    for (let frame = 0; frame < frames; frame += 1) {
      const at = (row * frames + frame) * size;
      let best = 0;
      for (let i = 1; i < size; i += 1) if ((values[at + i] ?? 0) > (values[at + best] ?? 0)) best = i;
      const letter = names.get(best) ?? '';
      if (best !== last && best !== blank && !SPECIAL.test(letter)) text += letter === SPACE ? ' ' : letter;
      last = best;
    }
    return text.trim();
  });
}
