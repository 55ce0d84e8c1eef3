import { cpSync, existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { Progress } from '../../cli/progress';
import { UserError } from '../../core/errors';
import { exec } from '../../core/exec';
import { paths } from '../../core/paths';
import { ensurePython } from '../../local/install/python';
import { YAML_FILE } from '../../model/load-config';
import { externalFiles } from '../../model/onnx';
import { CONFIG_FILE, displayPath, getReason } from '../../model/paths';

/** What `python -m tracing.describe` prints of a model file. */
interface Description {
  platform: string;
  max_batch_size: number;
  /** Why max_batch_size is 0. */
  reason?: string;
  input: Tensor[];
  output: Tensor[];
}

/** Platform -> name of its file. */
const FILES: Readonly<Record<string, string>> = { onnxruntime_onnx: 'model.onnx', torch_aoti: 'model.pt2' };

interface Tensor {
  name: string;
  data_type: string;
  dims: number[];
  /** The shape for the model, if it differs from dims. */
  reshape?: number[];
}

/**
 * Makes the folder of a model from a file of ONNX or PyTorch: a copy of the file, and a model.yaml that describes it.
 * @param folder of the model, which must not exist, or may contain only the file without a configuration
 * @param inputs TYPE:DIMS of each input, which a TorchScript file lacks
 * @throws UserError if the folder exists, or if the file cannot be served
 */
export async function createModelFromFile(file: string, folder: string, inputs: readonly string[]): Promise<void> {
  const shown = displayPath(file);
  if (!existsSync(file) || !statSync(file).isFile()) throw new UserError(`${shown} is not a file`);
  const isInside = file.startsWith(folder + sep);
  const configuration = [YAML_FILE, CONFIG_FILE].map((name) => join(folder, name)).find((path) => existsSync(path));
  if (configuration !== undefined || (existsSync(folder) && !isInside)) {
    throw new UserError(`${displayPath(configuration ?? folder)} exists already`, {
      hint: 'choose another name for the model: --from FILE NAME',
    });
  }
  const described = await new Progress(process.stderr).run(`read ${shown}`, async (step) => {
    const { python } = await ensurePython(step);
    step.update('reading');
    const { stdout } = await exec(python, ['-m', 'tracing.describe', file, ...inputs], { cwd: paths.python });
    const result = JSON.parse(stdout) as Description | { error: string; hint: string };
    if ('error' in result) throw new UserError(result.error, { hint: result.hint });
    return result;
  });
  const name = FILES[described.platform] ?? 'model.pt';
  const version = join(folder, '1');
  const put = isInside ? renameSync : cpSync;
  const isNew = !existsSync(folder);
  const external = name === 'model.onnx' ? [...new Set(externalFiles(file))] : [];
  const parts = external.map((part) => [resolve(dirname(file), part), join(version, part)] as const);
  try {
    for (const [from, to] of [[file, join(version, name)] as const, ...parts]) {
      if (from === to) continue;
      mkdirSync(dirname(to), { recursive: true });
      put(from, to);
    }
    writeFileSync(join(folder, YAML_FILE), modelYaml(described, folder));
  } catch (cause) {
    if (isNew && existsSync(folder)) rmSync(folder, { recursive: true });
    throw new UserError(`cannot write ${displayPath(folder)}: ${getReason(cause)}`, { cause });
  }
}

function modelYaml(fields: Description, folder: string): string {
  const schema = relative(folder, join(paths.modelRepository, 'model.schema.json'));
  const batch = fields.max_batch_size > 0;
  const tensors = (list: readonly Tensor[]): string[] =>
    list.flatMap(({ name, data_type: type, dims, reshape }) => [
      `  - name: ${JSON.stringify(name)}`,
      `    data_type: ${type}`,
      `    dims: [${dims.join(', ')}]`,
      ...(reshape === undefined ? [] : [`    reshape: { shape: [${reshape.join(', ')}] }`]),
    ]);
  return [
    `# yaml-language-server: $schema=${schema}`,
    `platform: ${fields.platform}`,
    ...(batch
      ? [
          '# Triton puts an axis of 1 to 8 rows in front of all dims. If the first axis of the model is no batch, write',
          '# max_batch_size: 0, remove dynamic_batching, and put -1 in front of all dims.',
          `max_batch_size: ${fields.max_batch_size}`,
          'dynamic_batching: {} # joins requests that arrive at the same time',
        ]
      : [`max_batch_size: 0 # ${fields.reason}`]),
    ...(fields.platform === 'pytorch_libtorch'
      ? [
          '# Without this, the first two requests of each shape are slow, unless model_warmup has them.',
          'parameters: { DISABLE_OPTIMIZED_EXECUTION: { string_value: "true" } }',
        ]
      : []),
    'input:',
    ...tensors(fields.input),
    'output:',
    ...tensors(fields.output),
    '',
  ].join('\n');
}
