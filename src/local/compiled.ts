import { createHash } from 'node:crypto';
import { readFileSync, renameSync, statSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { exec } from '../core/exec';
import { paths } from '../core/paths';
import type { RepositoryModel } from '../model';
import { isCompiled } from '../model/torch-files';
import { readTraceRecord } from '../model/trace-record';
import { cached, cacheRoot, isCached } from './install/cache';

/** A program that `npm run trace` exported, with the place of what AOTInductor makes of it for this machine. */
export interface ExportedProgram {
  model: RepositoryModel;
  version: number;
  /** In the model folder: `1/model.pt2`. */
  key: string;
  path: string;
  /** Name of a folder of the cache. */
  cacheName: string;
}

const PACKAGE = 'model.pt2';

/** Code of AOTInductor needs the processor that it was compiled for, and the same PyTorch. */
const machine = (): string =>
  `${cpus()[0]?.model ?? ''}\0${readFileSync(join(paths.requirements, 'runtime.txt'), 'utf8')}`;

/** The programs of a model that can be compiled: traced, and not compiled already. */
export function exportedPrograms(model: RepositoryModel): ExportedProgram[] {
  if (model.platform !== 'torch_aoti') return [];
  return model.versions.flatMap(({ version, files }) =>
    files.flatMap(({ key, path }) => {
      const { artifact } = readTraceRecord(`${path}.trace.json`) ?? {};
      if (artifact?.path !== key || artifact.sha256 === undefined || isCompiled(path)) return [];
      const digest = createHash('sha256').update(`${artifact.sha256}\0${machine()}`).digest('hex');
      return [{ model, version, key, path, cacheName: `compiled-${digest.slice(0, 12)}` }];
    }),
  );
}

/** Replaces the files of exported programs by what was compiled for this machine, where it was. */
export function withCompiledPrograms(model: RepositoryModel): RepositoryModel {
  const compiled = new Map(
    exportedPrograms(model)
      .filter(({ cacheName }) => isCached(cacheName))
      .map(({ key, cacheName }) => [key, join(cacheRoot(), cacheName, PACKAGE)]),
  );
  if (compiled.size === 0) return model;
  const versions = model.versions.map((version) => ({
    ...version,
    files: version.files.map((file) => {
      const path = compiled.get(file.key);
      return path === undefined ? file : { ...file, path, bytes: statSync(path).size };
    }),
  }));
  return { ...model, versions };
}

/**
 * Compiles a program for this machine, and compares it with the golden requests of its trace.
 * @returns the time and the largest difference; undefined if it was compiled before
 * @throws UserError if it cannot be compiled, or answers beyond a tolerance
 */
export async function compileProgram(
  { model, version, path, cacheName }: ExportedProgram,
  python: string,
): Promise<{ seconds: number; difference: number } | undefined> {
  let result: { seconds: number; difference: number } | undefined;
  await cached(cacheName, async (directory) => {
    const made = join(directory, `unchecked-${PACKAGE}`);
    const args = ['-m', 'tracing.compiled', model.directory, String(version), path, made];
    const { stdout } = await exec(python, args, { cwd: paths.python });
    const answer = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as
      { seconds: number; difference: number } | { error: string; hint?: string };
    if ('error' in answer) throw new UserError(`${model.name}: ${answer.error}`, { hint: answer.hint });
    renameSync(made, join(directory, PACKAGE));
    result = answer;
  });
  return result;
}
