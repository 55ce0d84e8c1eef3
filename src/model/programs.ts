import { createHash } from 'node:crypto';
import type { RepositoryModel } from './repository';
import { isCompiled } from './torch-files';
import { readTraceRecord } from './trace-record';
import type { ModelVersion } from './versions';

/** A traced file that `npm run build` compiles for one kind of processor. */
export interface ExportedProgram {
  model: RepositoryModel;
  version: number;
  /** In the model folder: `1/model.pt2`, `1/model.onnx`. */
  key: string;
  path: string;
  /** In hex, of all that was traced and that determines what is compiled. */
  sha256: string;
  /** The file that Triton serves, in the model folder: `1/model.pt2`, `1/model.plan`. */
  artifact: string;
  /** Files beside the traced one that belong to it. */
  dataFiles: string[];
}

/** Platform -> the file that a trace writes, and the one that Triton serves. */
const COMPILED_PLATFORMS: Readonly<Record<string, { source: string; served: string }>> = {
  torch_aoti: { source: 'model.pt2', served: 'model.pt2' },
  tensorrt_plan: { source: 'model.onnx', served: 'model.plan' },
};

/** The file of a version that has to be compiled before Triton can serve it, and what it becomes, by their keys. */
export function uncompiled(
  { platform, config }: Pick<RepositoryModel, 'platform' | 'config'>,
  { version, files }: ModelVersion,
): { source: string; path: string; artifact: string } | undefined {
  const names = COMPILED_PLATFORMS[platform];
  if (names === undefined) return undefined;
  const { default_model_filename: given = '' } = config;
  const artifact = `${version}/${given === '' ? names.served : given}`;
  const source = names.source === names.served ? artifact : `${version}/${names.source}`;
  const file = files.find(({ key }) => key === source);
  const isThere = source === artifact ? file && isCompiled(file.path) : files.some(({ key }) => key === artifact);
  return file === undefined || isThere === true ? undefined : { source, path: file.path, artifact };
}

/** The programs of a model that can be compiled: traced, and not compiled already. */
export function exportedPrograms(model: RepositoryModel): ExportedProgram[] {
  return model.versions.flatMap((version) => {
    const found = uncompiled(model, version);
    const { artifact, dataFiles = [], otherFiles = [] } = (found && readTraceRecord(`${found.path}.trace.json`)) ?? {};
    if (found === undefined || artifact?.path !== found.source || artifact.sha256 === undefined) return [];
    const plan = otherFiles.filter((file) => file.path === `${version.version}/plan.json`);
    const parts = [artifact, ...dataFiles, ...plan].map(({ path: name, sha256 }) => [name, sha256]);
    const { max_batch_size: batch = 0 } = model.config;
    const digest = createHash('sha256')
      .update(JSON.stringify([parts, batch]))
      .digest('hex');
    return [
      {
        ...{ model, version: version.version, key: found.source, path: found.path, artifact: found.artifact },
        ...{ sha256: digest, dataFiles: dataFiles.map((file) => file.path) },
      },
    ];
  });
}
