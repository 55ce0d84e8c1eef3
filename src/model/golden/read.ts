import { promises as fs } from 'node:fs';
import path from 'node:path';
import { UserError, type Problem } from '../../core/errors';
import { readNpy } from '../media/npy';
import type { ModelConfig } from '../model-config';
import { displayPath, getReason } from '../paths';
import { parseExactJson } from '../../core/exact-json';
import { describe, ProblemList } from '../../core/problems';
import { readFiles, type SourceFile } from '../source-files';
import { encodeTensor } from '../../triton/tensor';
import { RequestReader, type ReadFile } from './read-request';
import { GOLDEN_FOLDER, type GoldenRequest } from './request';

/** Golden requests are read into memory and stored as one object. */
const MOST_BYTES = 64 * 2 ** 20;

/** The golden requests of a model folder, with the problems found in them. */
export interface ReadGolden {
  /** Requests without problems, ordered by name. */
  requests: GoldenRequest[];
  problems: Problem[];
}

/**
 * Reads the golden requests of a model folder and checks them against the model's configuration.
 *
 * @param root real path of the model folder
 * @param versions existing versions of the model
 * @param served versions that are served; requests of other versions are skipped, because they were made for another
 *   configuration
 */
export async function readGolden(
  root: string,
  config: ModelConfig,
  versions: readonly number[],
  served: readonly number[] = versions,
): Promise<ReadGolden> {
  const folder = path.join(root, GOLDEN_FOLDER);
  const isFolder = await fs.stat(folder).then(
    (stat) => stat.isDirectory(),
    () => false,
  );
  if (!isFolder) return { requests: [], problems: [] };
  const problems = new ProblemList(displayPath(folder));
  const files = readFiles(root, GOLDEN_FOLDER, problems);
  const requests: GoldenRequest[] = [];
  for (const file of files.filter(({ key }) => key.endsWith('.json'))) {
    const version = versionFor(file.key, versions, problems);
    if (version === 'none' || (version !== undefined && !served.includes(version))) continue;
    const found = new ProblemList(displayPath(file.path));
    const request = await readCase(file, { config, files }, found);
    problems.problems.push(...found.problems);
    if (request !== undefined) requests.push({ ...request, version });
  }
  const bytes = requests.reduce((sum, request) => sum + countBytes(request), 0);
  if (bytes > MOST_BYTES) {
    problems.add('', `the requests and their answers are too large, got ${bytes} bytes`, {
      allowed: `at most ${MOST_BYTES}`,
      hint: 'remove requests, or make them smaller',
    });
  }
  return { requests, problems: problems.problems };
}

/** The version that a file's folder names; undefined for every version, `none` for a version that does not exist. */
function versionFor(key: string, versions: readonly number[], problems: ProblemList): number | 'none' | undefined {
  const [, first = '', ...deeper] = key.split('/');
  if (deeper.length === 0) return undefined;
  const version = /^[1-9]\d*$/.test(first) && deeper.length === 1 ? Number(first) : undefined;
  if (version !== undefined && versions.includes(version)) return version;
  const file = `${problems.file}/${[first, ...deeper].join('/')}`;
  const message =
    version === undefined
      ? 'is never sent, because its folder is not a version of the model'
      : `is for version ${version}, which the model does not have`;
  const allowed = `${GOLDEN_FOLDER}/CASE.json${versions.map((one) => `, ${GOLDEN_FOLDER}/${one}/CASE.json`).join('')}`;
  problems.problems.push({ file, message, allowed, hint: 'move or remove it' });
  return 'none';
}

interface Context {
  config: ModelConfig;
  files: readonly SourceFile[];
}

async function readCase(
  file: SourceFile,
  { config, files }: Context,
  problems: ProblemList,
): Promise<GoldenRequest | undefined> {
  let content: unknown;
  try {
    // Editors on Windows may start a file with a byte order mark.
    content = parseExactJson((await fs.readFile(file.path, 'utf8')).replace(/^\uFEFF/, ''));
  } catch (error) {
    const message =
      error instanceof SyntaxError ? `is not JSON: ${printable(error.message)}` : `cannot be read: ${getReason(error)}`;
    problems.add('', message, { hint: 'see docs/models.md for an example' });
    return undefined;
  }
  const readFile: ReadFile = async (name) => {
    const key = path.posix.join(path.posix.dirname(file.key), name);
    const found = files.find((one) => one.key === key);
    if (found === undefined) {
      const hint = key.startsWith(`${GOLDEN_FOLDER}/`) ? `put it at ${key}` : `copy it into ${GOLDEN_FOLDER}/`;
      throw new UserError(`names a file that is not in ${GOLDEN_FOLDER}/: ${describe(name)}`, { hint });
    }
    return readNpy(name, await fs.readFile(found.path));
  };
  const name = file.key.slice(GOLDEN_FOLDER.length + 1, -'.json'.length);
  return new RequestReader(config, readFile, problems).read(name, content);
}

/** Replaces control characters, because the parser quotes the file, which may hold terminal control sequences. */
const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '\uFFFD');

function countBytes({ inputs, outputs }: GoldenRequest): number {
  return [...inputs, ...outputs.map(({ tensor }) => tensor)].reduce(
    (sum, tensor) => sum + encodeTensor(tensor).byteLength,
    0,
  );
}
