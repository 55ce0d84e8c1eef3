import path from 'node:path';
import { GOLDEN_FOLDER } from './golden/request';
import { traceCommand } from '../core/next-command';
import { countBytes, type ModelConfig } from './model-config';
import { exists, TRACE_FILE } from './paths';
import { fieldPath, type ProblemList } from '../core/problems';
import { REQUIREMENTS_FILE } from './requirements';
import { readFiles, type SourceFile } from './source-files';

/** A file or folder in the model folder that the configuration names. */
interface Reference {
  field: string;
  /** Path in the model folder. */
  key: string;
  /** Minimum size. */
  bytes?: number;
  /** Whether the file may be elsewhere on the server instead. */
  optional?: true;
}

/** In parameters of the Python backend, Triton replaces this prefix with the path of the model's folder. */
const MODEL_DIRECTORY = '$$TRITON_MODEL_DIRECTORY/';

/** All files and folders that the configuration has Triton or a backend open. */
function references(config: ModelConfig): Reference[] {
  const labels = (config.output ?? []).map(({ label_filename: file }, index) => ({
    field: `output[${index}].label_filename`,
    key: file,
  }));
  const warmups = (config.model_warmup ?? []).flatMap(({ inputs }, index) =>
    Object.entries(inputs ?? {}).map(([name, { input_data_file: file, data_type = '', dims = [] }]) => ({
      field: `${fieldPath(`model_warmup[${index}].inputs`, name)}.input_data_file`,
      key: file && `warmup/${file}`,
      bytes: countBytes(data_type, dims),
    })),
  );
  const states = (config.sequence_batching?.state ?? []).flatMap(({ initial_state }, index) =>
    (initial_state ?? []).map(({ data_file: file, data_type = '', dims = [] }, inner) => ({
      field: `sequence_batching.state[${index}].initial_state[${inner}].data_file`,
      key: file && `initial_state/${file}`,
      bytes: countBytes(data_type, dims),
    })),
  );
  const parameters = Object.entries(config.parameters ?? {}).map(([name, { string_value: value }]) => ({
    field: `${fieldPath('parameters', name)}.string_value`,
    key: value?.startsWith(MODEL_DIRECTORY) ? value.slice(MODEL_DIRECTORY.length) : undefined,
  }));
  // For other backends a requirements.txt is only for trace.py.
  const requirements = config.backend === 'python' ? REQUIREMENTS_FILE : undefined;
  const optional = [
    ...(config.model_operations?.op_library_filename ?? []).map((file, index) => ({
      field: `model_operations.op_library_filename[${index}]`,
      key: file,
    })),
    // The library of a user's own backend may be in the model's folder.
    { field: 'backend', key: config.backend && `libtriton_${config.backend}.so` },
    { field: 'backend', key: requirements },
  ].map((one) => ({ ...one, optional: true as const }));
  return [...labels, ...warmups, ...states, ...parameters, ...optional].filter(
    (one): one is Reference => one.key !== undefined && one.key !== '',
  );
}

/**
 * Returns the files outside the version folders that the configuration names. Missing files are problems.
 *
 * @param root the real path of the model folder
 * @param problems list of the configuration file
 */
export async function readReferences(root: string, config: ModelConfig, problems: ProblemList): Promise<SourceFile[]> {
  const files = new Map<string, SourceFile>();
  for (const { field, key, bytes, optional } of references(config)) {
    const clean = path.posix.normalize(key);
    const isThere = await exists(path.join(root, clean));
    if (optional && (path.posix.isAbsolute(clean) || !isThere)) continue;
    if (clean.startsWith('/') || clean === '..' || clean.startsWith('../')) {
      problems.add(field, `points outside the model folder, got ${JSON.stringify(key)}`, {
        hint: 'copy the file into the model folder',
      });
      continue;
    }
    if (clean.startsWith(`${GOLDEN_FOLDER}/`)) {
      problems.add(field, `names a file of golden requests, which are not published: ${JSON.stringify(clean)}`, {
        hint: `move it out of ${GOLDEN_FOLDER}/`,
      });
      continue;
    }
    if (!isThere) {
      problems.add(field, `names a file that is not in the model folder: ${JSON.stringify(clean)}`, {
        hint: await howToHave(root, clean),
      });
      continue;
    }
    const found = readFiles(root, clean, problems);
    const [data] = found;
    if (bytes !== undefined && data?.key === clean && data.bytes < bytes) {
      problems.add(field, `names a file that is too short: ${JSON.stringify(clean)} has ${data.bytes} bytes`, {
        allowed: `${bytes} bytes, by data_type and dims`,
      });
    }
    for (const file of found) files.set(file.key, file);
  }
  return [...files.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Hint for a missing file: where to put it, and how to run the model's trace.py, which may write it. */
async function howToHave(root: string, key: string): Promise<string> {
  const name = path.basename(root);
  const traced = await exists(path.join(root, TRACE_FILE));
  return traced ? `${traceCommand(root)}, or put it at ${name}/${key}` : `put it at ${name}/${key}`;
}
