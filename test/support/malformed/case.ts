import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { torchScript } from '../model-files';

/** What lies at a path: its content, or something that is no ordinary file. */
export type Malformed =
  string | Buffer | { link: string } | { mode: number; content: string | Buffer } | { pipe: true };

/** A model repository with one thing wrong in it. */
export interface MalformedCase {
  name: string;
  /** Path in the repository -> what is there. A path that ends in `/` is an empty folder. */
  files: Record<string, Malformed>;
  /** What is said, as it is printed, with paths from the repository on. */
  problem: RegExp;
  /** How many problems there are; 1 where nothing else follows from the one that is meant. */
  problems?: number;
  /** Root may read everything. */
  notForRoot?: true;
}

/** Makes the repository of a case in `directory`, which is there. */
export function writeMalformed(directory: string, files: MalformedCase['files']): void {
  for (const [path, content] of Object.entries(files)) {
    const at = join(directory, path);
    mkdirSync(path.endsWith('/') ? at : dirname(at), { recursive: true });
    if (path.endsWith('/')) continue;
    if (typeof content === 'string' || Buffer.isBuffer(content)) writeFileSync(at, content);
    else if ('link' in content) symlinkSync(content.link, at);
    else if ('pipe' in content) execFileSync('mkfifo', [at]);
    else {
      writeFileSync(at, content.content);
      chmodSync(at, content.mode);
    }
  }
}

export type Fields = Record<string, unknown>;

/** Fields in place of the sound ones, the field that is named, and what is said of it. */
export type RuleRow = readonly [name: string, fields: Fields, field: string, says: string];

/** Of `sound`, served by either backend. */
export const ARTIFACT = {
  'm/1/model.pt': torchScript(),
  'm/1/model.onnx': readFileSync(join(__dirname, '../../data/onnx/sound.onnx')),
};
export const input = (fields: Fields = {}): Fields => ({
  name: 'input__0',
  data_type: 'TYPE_FP32',
  dims: [3],
  ...fields,
});
export const output = (fields: Fields = {}): Fields => ({
  name: 'output__0',
  data_type: 'TYPE_FP32',
  dims: [4],
  ...fields,
});

/** A sound TorchScript model with other fields in place of its own; undefined takes one out. */
export function sound(fields: Fields = {}): Fields {
  const config: Fields = {
    platform: 'pytorch_libtorch',
    max_batch_size: 8,
    input: [input()],
    output: [output()],
    ...fields,
  };
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
}

export const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
/** A problem that begins with `text`, as it is. */
export const begins = (text: string): RegExp => new RegExp(`^${escaped(text)}`);
