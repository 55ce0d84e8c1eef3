import type { RepositoryModel } from './repository';
import { isCompiled } from './torch-files';
import { readTraceRecord } from './trace-record';

/** A program that `npm run trace` exported, and that can be compiled. */
export interface ExportedProgram {
  model: RepositoryModel;
  version: number;
  /** In the model folder: `1/model.pt2`. */
  key: string;
  path: string;
  /** In hex, as the trace recorded it. */
  sha256: string;
}

/** The programs of a model that can be compiled: traced, and not compiled already. */
export function exportedPrograms(model: RepositoryModel): ExportedProgram[] {
  if (model.platform !== 'torch_aoti') return [];
  return model.versions.flatMap(({ version, files }) =>
    files.flatMap(({ key, path }) => {
      const { artifact } = readTraceRecord(`${path}.trace.json`) ?? {};
      if (artifact?.path !== key || artifact.sha256 === undefined || isCompiled(path)) return [];
      return [{ model, version, key, path, sha256: artifact.sha256 }];
    }),
  );
}
