import { readFileSync } from 'node:fs';

/** Ids and attention mask of texts: [texts, length], padded to the longest text. */
export interface Tokens {
  ids: { shape: number[]; data: BigInt64Array };
  /** 1 for a token, 0 for padding. */
  mask: { shape: number[]; data: BigInt64Array };
}

/** The part of @huggingface/tokenizers that is used. The package's own types refer to files that it does not ship. */
interface TokenizerModule {
  Tokenizer: new (
    definition: object,
    settings: object,
  ) => { encode(text: string): { ids: number[]; attention_mask: number[] } };
}

/** @param file the model's `tokenizer.json` */
export async function tokenize(file: string, texts: readonly string[]): Promise<Tokens> {
  const definition = JSON.parse(readFileSync(file, 'utf8')) as object;
  const { Tokenizer } = (await import('@huggingface/tokenizers')) as unknown as TokenizerModule;
  const tokenizer = new Tokenizer(definition, {});
  const encoded = texts.map((text) => tokenizer.encode(text));
  const length = Math.max(...encoded.map(({ ids }) => ids.length));
  const padded = (rows: readonly (readonly number[])[]): Tokens['ids'] => ({
    shape: [texts.length, length],
    data: BigInt64Array.from(rows.flatMap((row) => Array.from({ length }, (_, i) => BigInt(row[i] ?? 0)))),
  });
  return {
    ids: padded(encoded.map(({ ids }) => ids)),
    mask: padded(encoded.map(({ attention_mask: mask }) => mask)),
  };
}
