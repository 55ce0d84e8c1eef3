import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { torchScript } from '../model-files';

/** The content of a file, or a special file. */
export type Malformed =
  string | Buffer | { link: string } | { mode: number; content: string | Buffer } | { pipe: true };

/** A model repository with one thing wrong in it. */
export interface MalformedCase {
  name: string;
  /** Path in the repository -> content. A path that ends in `/` is an empty folder. */
  files: Record<string, Malformed>;
  /** The problem as printed, with paths relative to the repository. */
  problem: RegExp;
  /** Number of problems. Default: 1, because the mistake causes no other problems. */
  problems?: number;
  /** Skipped for root, who may read every file. */
  notForRoot?: true;
}

/** Writes the repository of a case into `directory`, which exists. */
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

/** Name of the case, replaced fields of a valid model, the reported field, and its problem. */
export type RuleRow = readonly [name: string, fields: Fields, field: string, says: string];

/** Files of the model `sound`, for either backend. */
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

/** A valid TorchScript model with some fields replaced; undefined removes a field. */
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
/** Matches a problem that begins with `text`, which is not a pattern. */
export const begins = (text: string): RegExp => new RegExp(`^${escaped(text)}`);
