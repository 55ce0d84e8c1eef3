import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { didYouMean } from '../core/nearest';
import { describe, ProblemList } from '../core/problems';
import { displayPath, getReason, staysInside } from './paths';
import { parseYaml } from './yaml-text';

/** File in the model's folder that lists the downloads of the model, because model.yaml has only Triton's fields. */
export const WEIGHTS_FILE = 'weights.yaml';

/** One entry of a weights.yaml. */
export interface Download {
  /** `s3://BUCKET/KEY`, or an address of HTTP. */
  url: string;
  /** SHA-256 of the content in hex, because the content at an address can change. */
  sha256: string;
  /** Path in the model folder, for a model with an artifact that is not traced. Without it: `context.weights`. */
  file?: string;
}

const FIELDS = ['url', 'sha256', 'file'];
const S3_URL = /^s3:\/\/([a-z0-9][a-z0-9.-]+[a-z0-9])\/(.*[^/])$/;

/** Returns the bucket and key of an S3 address; undefined for other addresses. */
export function parseS3Url(url: string): { bucket: string; key: string } | undefined {
  const [, bucket, key] = S3_URL.exec(url) ?? [];
  return bucket === undefined || key === undefined ? undefined : { bucket, key };
}

/**
 * Reads the weights.yaml of a model folder; empty if the file is missing or invalid.
 * @param problems receives the errors
 */
export function readWeightsFile(folder: string, problems: ProblemList['problems']): Download[] {
  const path = join(folder, WEIGHTS_FILE);
  if (!existsSync(path)) return [];
  const list = new ProblemList(displayPath(path));
  const downloads = parse(path, list);
  problems.push(...list.problems);
  return list.problems.length === 0 ? downloads : [];
}

function parse(path: string, list: ProblemList): Download[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    list.add('', `cannot be read: ${getReason(error)}`);
    return [];
  }
  const entries = parseYaml(text, list);
  if (list.problems.length > 0) return [];
  if (!Array.isArray(entries) || entries.length === 0) {
    list.add('', `must be a list of downloads, got ${describe(entries)}`, {
      hint: 'write for example - { url: s3://..., sha256: ... }',
    });
    return [];
  }
  const downloads = entries.map((entry, index) => parseEntry(entry, `[${index}]`, list));
  const forTrace = downloads.filter(({ file }) => file === undefined).length;
  if (forTrace > 1) list.add('', 'has several downloads without file, but context.weights in trace.py is one file');
  if (forTrace > 0 && !existsSync(join(path, '..', 'trace.py'))) {
    list.add('', 'has a download without file, which is for a trace.py, but the folder has none', {
      hint: 'name the artifact: file: 1/model.pt',
    });
  }
  return downloads;
}

function parseEntry(entry: unknown, field: string, list: ProblemList): Download {
  const fields = entry instanceof Map ? (entry as Map<unknown, unknown>) : new Map<unknown, unknown>();
  if (!(entry instanceof Map)) list.add(field, `must be a mapping, got ${describe(entry)}`);
  for (const name of fields.keys()) {
    if (FIELDS.includes(String(name))) continue;
    const hint = didYouMean(String(name), FIELDS);
    list.add(`${field}.${String(name)}`, 'unknown field', { allowed: FIELDS.join(', '), hint });
  }
  const [url, sha256, file] = FIELDS.map((name) => fields.get(name));
  const isUrl = typeof url === 'string' && (parseS3Url(url) !== undefined || isHttp(url));
  if (entry instanceof Map && !isUrl) {
    list.add(`${field}.url`, `is not an address, got ${describe(url)}`, {
      allowed: 's3://BUCKET/KEY, https://HOST/FILE',
    });
  }
  if (entry instanceof Map && !(typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256))) {
    list.add(`${field}.sha256`, `is not a SHA-256, got ${describe(sha256)}`, {
      allowed: '64 hexadecimal digits in lower case',
      hint: 'run sha256sum FILE',
    });
  }
  if (file !== undefined && !(typeof file === 'string' && staysInside(file))) {
    list.add(`${field}.file`, `is not a path in the model folder, got ${describe(file)}`, {
      hint: 'write for example 1/model.pt',
    });
  }
  return { url: String(url), sha256: String(sha256), ...(typeof file === 'string' ? { file } : {}) };
}

const isHttp = (url: string): boolean => /^https?:\/\//.test(url) && URL.canParse(url);
