import { createHash } from 'node:crypto';
import { readFileSync, renameSync, statSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { exec } from '../core/exec';
import { paths } from '../core/paths';
import type { RepositoryModel } from '../model';
import { exportedPrograms, type ExportedProgram } from '../model/programs';
import { cached, cacheRoot, isCached } from './install/cache';

const PACKAGE = 'model.pt2';

/** Code of AOTInductor needs the processor that it was compiled for, and the same PyTorch. */
const machine = (): string =>
  `${cpus()[0]?.model ?? ''}\0${readFileSync(join(paths.requirements, 'runtime.txt'), 'utf8')}`;

/** A TensorRT plan is built on a GPU of a stack only. */
export const isForHere = ({ key, artifact }: ExportedProgram): boolean => key === artifact;

const cacheName = ({ sha256 }: ExportedProgram): string =>
  `compiled-${createHash('sha256').update(`${sha256}\0${machine()}`).digest('hex').slice(0, 12)}`;

/** Replaces the files of exported programs by what was compiled for this machine, where it was. */
export function withCompiledPrograms(model: RepositoryModel): RepositoryModel {
  const compiled = new Map(
    exportedPrograms(model)
      .filter(isForHere)
      .filter((program) => isCached(cacheName(program)))
      .map((program) => [program.key, join(cacheRoot(), cacheName(program), PACKAGE)]),
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
export async function compileProgram(program: ExportedProgram, python: string): Promise<Compiling | undefined> {
  const { model, version, path } = program;
  let result: Compiling | undefined;
  await cached(cacheName(program), async (directory) => {
    const made = join(directory, `unchecked-${PACKAGE}`);
    const args = ['-m', 'tracing.compiled', model.directory, String(version), path, made];
    const { stdout } = await exec(python, args, { cwd: paths.python });
    result = readAnswer(model.name, stdout.trim().split('\n').at(-1) ?? '');
    renameSync(made, join(directory, PACKAGE));
  });
  return result;
}

/** What tracing.compiled reports: its time, the largest difference from a golden request, and its version of PyTorch. */
export interface Compiling {
  seconds: number;
  difference: number;
  torch: string;
}

/**
 * Reads the last line of tracing.compiled.
 * @throws UserError if it reports a failure
 */
export function readAnswer(model: string, line: string): Compiling {
  const answer = JSON.parse(line) as Compiling | { error: string; hint?: string };
  if ('error' in answer) throw new UserError(`${model}: ${answer.error}`, { hint: answer.hint });
  return answer;
}
