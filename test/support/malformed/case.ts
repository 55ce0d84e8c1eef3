import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { configText, type ModelConfig } from '../../../src/model';
import { program, torchScript } from '../model-files';

/** The content of a file, or a special file. */
export type Malformed =
  string | Buffer | { link: string } | { mode: number; content: string | Buffer } | { pipe: true };

/** A model repository with one thing wrong in it. */
export interface MalformedCase {
  name: string;
  /** Path in the repository -> content. A path that ends in `/` is an empty folder. */
  files: Record<string, Malformed>;
  /** All problems as printed, with paths relative to the repository: exact texts, or patterns. */
  problems: readonly (string | RegExp)[];
  /** The release of Triton that is to serve the models. */
  triton?: string;
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

/** A configuration with one thing wrong in it. */
export type RuleCase = readonly [
  /** Replaced fields of a valid model; undefined removes a field. */
  fields: Fields,
  /** The only problem or all problems as printed, without the name of the file. */
  problems: string | readonly string[],
  /** The problems in config.pbtxt, if they differ there. None: the configuration is valid there. */
  inText?: string | readonly string[],
];

/** The case as model.yaml and as config.pbtxt of the model m. */
export function inBothLanguages(
  prefix: string,
  [fields, problems, inText = problems]: RuleCase,
  files: MalformedCase['files'],
): MalformedCase[] {
  const languages = [
    ['m/model.yaml', JSON.stringify(fields), problems],
    ['m/config.pbtxt', configText(JSON.parse(JSON.stringify(fields)) as ModelConfig), inText],
  ] as const;
  return languages
    .filter(([, , expected]) => expected.length > 0)
    .map(([file, content, expected]) => ({
      name: `${prefix}${file.slice(2)}: ${[expected].flat()[0]?.split(/[;\n]/)[0]}`,
      files: { ...files, [file]: content },
      problems: [expected].flat().map((problem) => `${file}: ${problem}`),
    }));
}

/** Lists and hints of several problems. */
export const PLATFORMS = 'pytorch_libtorch, torch_aoti, tensorrt_plan, onnxruntime_onnx, ensemble';
export const TYPES =
  'TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, ' +
  'TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING, TYPE_BF16';
export const SIZES = '1 or more, or -1 for any size';
export const positionHint = (side: string): string =>
  `\n    -> TorchScript files contain no names, so name the tensors by position: ${side}__0, ${side}__1, ...`;

/** Files of the model `sound`, for either backend. */
export const ARTIFACT = {
  'm/1/model.pt': torchScript(),
  'm/1/model.pt2': program('exported'),
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

/** Matches a problem that begins with `text`, which is not a pattern. */
export const begins = (text: string): RegExp => new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`);
