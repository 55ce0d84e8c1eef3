import { existsSync, promises as fs } from 'node:fs';
import path from 'node:path';

/** Name of the configuration that Triton reads in a model's folder. */
export const CONFIG_FILE = 'config.pbtxt';

/** The program in a model's folder that creates its artifact. */
export const TRACE_FILE = 'trace.py';

/**
 * Whether the object is the record beside an artifact (python/tracing). The record describes how the artifact was made.
 * No server reads the record, so it may change while the artifact does not.
 */
export const isTraceRecord = (key: string): boolean => key.endsWith('.trace.json');

/** A path for messages: relative inside the working directory, otherwise absolute. */
export function displayPath(file: string): string {
  const relative = path.relative(process.cwd(), file);
  return relative === '' || relative.startsWith('..') ? path.resolve(file) : relative;
}

/** Whether a file, folder or link of that name exists. A broken link counts. */
export const exists = (file: string): Promise<boolean> =>
  fs.lstat(file).then(
    () => true,
    () => false,
  );

/**
 * Returns the path of a model's file for clients, such as `tokenizer.json`. A file in the version's folder precedes a
 * file in the model's folder, which is for all versions. If neither exists, the path is in the version's folder.
 */
export function versionFile(folder: string, version: number, name: string): string {
  const own = path.join(folder, String(version), name);
  const shared = path.join(folder, name);
  return !existsSync(own) && existsSync(shared) ? shared : own;
}

/** Whether a path in a configuration stays inside its base folder. */
export const staysInside = (file: string): boolean =>
  file !== '' && !file.startsWith('/') && !file.split('/').includes('..');

/** Meaning of the system error codes that a user can fix. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  ENOENT: 'no such file or folder',
  ENOTDIR: 'it is not a folder',
  EISDIR: 'it is a folder',
  ELOOP: 'its links form a cycle',
  ENAMETOOLONG: 'its name is too long',
  EMFILE: 'too many open files',
  EIO: 'the disk reports an error',
};

/** Describes why a file operation failed. */
export function getReason(error: unknown): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  const known = typeof code === 'string' ? REASONS[code] : undefined;
  return known ?? (error instanceof Error ? error.message : String(error));
}
