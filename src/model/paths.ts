import { promises as fs } from 'node:fs';
import path from 'node:path';

/** Configuration of a model as Triton reads it, in the model's folder. */
export const CONFIG_FILE = 'config.pbtxt';

/** The program in a model's folder that makes its artifact. */
export const TRACE_FILE = 'trace.py';

/**
 * Whether the object is the record beside an artifact (python/tracing). It tells how the artifact was made and no
 * server reads it, so it may change while the artifact does not.
 */
export const isTraceRecord = (key: string): boolean => key.endsWith('.trace.json');

/** A path as messages show it: relative inside of the working directory, else absolute. */
export function displayPath(file: string): string {
  const relative = path.relative(process.cwd(), file);
  return relative === '' || relative.startsWith('..') ? path.resolve(file) : relative;
}

/** Whether anything has that name, a link that leads nowhere included. */
export const exists = (file: string): Promise<boolean> =>
  fs.lstat(file).then(
    () => true,
    () => false,
  );

/** Whether a path that a configuration names stays in the folder that it starts from. */
export const staysInside = (file: string): boolean =>
  file !== '' && !file.startsWith('/') && !file.split('/').includes('..');

/** What the system's error codes mean, for those that a user can do something about. */
const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'it is not a folder',
  EISDIR: 'it is a folder',
  ELOOP: 'its links lead in a circle',
  ENAMETOOLONG: 'its name is too long',
  EMFILE: 'too many open files',
  EIO: 'the disk reports an error',
};

/** Why a file operation failed, in words. */
export function reasonOf(error: unknown): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  const known = typeof code === 'string' ? REASONS[code] : undefined;
  return known ?? (error instanceof Error ? error.message : String(error));
}
