import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { didYouMean } from '../core/nearest';
import { displayPath, getReason, staysInside } from './paths';
import { describe, fieldPath, ProblemList } from '../core/problems';
import { parseYaml } from './yaml-text';
import { parseSource, SOURCES, type WeightsSource } from './weights-source';

/** File in the model's folder that names the sources of its weights, because model.yaml has only Triton's fields. */
export const WEIGHTS_FILE = 'weights.yaml';

/** A source, with the checksum of its content if the source may change. */
export interface Pinned {
  source: WeightsSource;
  /** SHA-256 in hex. */
  sha256: string | undefined;
}

/** The content of a weights.yaml. */
export interface WeightsFile {
  /** Weights for trace.py, passed as `context.weights`. */
  weights?: Pinned;
  /** Path in the model folder -> source of that file, for models with an artifact that is not traced. */
  files: Map<string, Pinned>;
}

/**
 * Reads the weights.yaml of a model folder; undefined if the file is missing or invalid.
 * @param problems receives the errors
 */
export function readWeightsFile(folder: string, problems: ProblemList['problems']): WeightsFile | undefined {
  const path = join(folder, WEIGHTS_FILE);
  if (!existsSync(path)) return undefined;
  const list = new ProblemList(displayPath(path));
  const read = parse(path, list);
  problems.push(...list.problems);
  return list.problems.length === 0 ? read : undefined;
}

function parse(path: string, list: ProblemList): WeightsFile {
  const files = new Map<string, Pinned>();
  const result: WeightsFile = { files };
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    list.add('', `cannot be read: ${getReason(error)}`);
    return result;
  }
  const fields = mapping(parseYaml(text, list), '', ['weights', 'files'], list);
  const weights = fields.get('weights');
  const named = fields.get('files');
  if (weights !== undefined) {
    const pinned = parsePinned(weights, 'weights', list);
    if (pinned !== undefined) result.weights = pinned;
  }
  for (const [name, value] of named === undefined ? [] : mapping(named, 'files', undefined, list)) {
    const field = fieldPath('files', name);
    const pinned = parsePinned(value, field, list);
    if (!staysInside(name))
      list.add(field, 'is not a path in the model folder', { hint: 'write for example 1/model.pt' });
    else if (pinned?.source.kind === 'hub' && pinned.source.file === undefined) {
      list.add(`${field}.source`, 'must name one file, but names a whole repository', {
        hint: `write ${pinned.source.text}/FILE`,
      });
    } else if (pinned !== undefined) files.set(name, pinned);
  }
  if (weights !== undefined && !existsSync(join(dirname(path), 'trace.py'))) {
    list.add('weights', 'requires a trace.py, which the folder does not have', {
      hint: 'name the artifact itself: files: { 1/model.pt: { source: ..., sha256: ... } }',
    });
  }
  if (list.problems.length === 0 && weights === undefined && files.size === 0) {
    list.add('', 'has neither weights nor files', {
      hint: 'write for example weights: { source: s3://..., sha256: ... }',
    });
  }
  return result;
}

function parsePinned(value: unknown, field: string, list: ProblemList): Pinned | undefined {
  const fields = mapping(value, field, ['source', 'sha256'], list);
  const text = fields.get('source');
  const sha256 = fields.get('sha256');
  if (typeof text !== 'string') {
    if (fields.size > 0)
      list.add(`${field}.source`, `is not a source of weights, got ${describe(text)}`, { allowed: SOURCES });
    return undefined;
  }
  const source = parseSource(text);
  if (source === undefined) {
    list.add(`${field}.source`, `is not a source of weights, got ${describe(text)}`, { allowed: SOURCES });
    return undefined;
  }
  if (sha256 !== undefined && (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256))) {
    list.add(`${field}.sha256`, `is not a SHA-256, got ${describe(sha256)}`, {
      allowed: '64 hexadecimal digits in lower case',
      hint: 'run sha256sum FILE',
    });
    return undefined;
  }
  if (isWholeRepository(source)) {
    if (/^[0-9a-f]{40}$/.test(source.revision) && sha256 === undefined) return { source, sha256: undefined };
    list.add(`${field}.source`, `must pin a whole repository by its commit alone, got ${describe(text)}`, {
      allowed: 'hf://OWNER/NAME@COMMIT with the 40 digits of a commit, and no sha256',
      hint: 'the page "Files and versions" of the repository lists its commits',
    });
    return undefined;
  }
  // A path names a file of the repository, whose content Git pins.
  if (sha256 === undefined && source.kind !== 'path') {
    list.add(`${field}.sha256`, 'is missing; the content at an address can change', { hint: 'run sha256sum FILE' });
    return undefined;
  }
  return { source, sha256 };
}

const isWholeRepository = (source: WeightsSource): source is WeightsSource & { kind: 'hub' } =>
  source.kind === 'hub' && source.file === undefined;

/** Returns the members of a mapping. Reports other values and unknown keys as problems. */
function mapping(
  value: unknown,
  field: string,
  allowed: readonly string[] | undefined,
  list: ProblemList,
): Map<string, unknown> {
  const found = new Map<string, unknown>();
  if (!(value instanceof Map)) {
    // The parser has already reported text that is not YAML.
    if (value !== undefined) list.add(field, `must be a mapping, got ${describe(value)}`);
    return found;
  }
  for (const [key, item] of value as Map<unknown, unknown>) {
    const name = String(key);
    if (allowed?.includes(name) ?? true) found.set(name, item);
    else
      list.add(fieldPath(field, name), 'unknown field', {
        allowed: allowed?.join(', ') ?? '',
        hint: didYouMean(name, allowed ?? []),
      });
  }
  return found;
}
