import { readFile } from 'node:fs/promises';
import { configText, stepModels, type RepositoryModel } from '../model';
import { encodeGolden } from '../model/golden';
import { isTraceRecord } from '../model/paths';
import { topologicalOrder } from '../release/load-order';
import type { Compiled, WeightKind } from '../release/manifest';
import { checksumOfBytes, checksumOfFile, type StoredObject } from '../s3/store';

/** A file that a release should hold. */
export interface DesiredFile {
  /** In the model's folder: `1/model.pt`, `labels.txt`. */
  path: string;
  bytes: number;
  /** As checksumOfBytes in src/s3/checksum.ts computes it. An upload refuses other bytes. */
  checksum: string;
  source: { file: string } | { body: Buffer } | { stored: StoredObject };
}

/** The desired state of a model: what Triton needs to serve it. Versions that are not served, and trace records, are left out. */
export interface DesiredModel {
  name: string;
  /** Ascending. */
  served: number[];
  /** Models that must be loaded first: the steps of an ensemble. */
  composedOf: string[];
  /** Text of config.pbtxt without version_policy. */
  config: string;
  files: DesiredFile[];
  /** Largest number of its versions, served or not. */
  newest: number;
  /** Version -> origin of its weights, if tracing recorded it. */
  weights: Record<string, string>;
  /** Version -> kind of its weights, if tracing recorded it. */
  weightKinds?: Record<string, WeightKind> | undefined;
  /** Version -> see ManifestModel. */
  compiled?: Record<string, Compiled> | undefined;
  /** Its golden requests. Undefined if the model has none. */
  golden?: DesiredFile | undefined;
}

/**
 * File for an empty version folder, because S3 has no empty folders. It has content because some tools omit empty objects.
 */
const VERSION_PLACEHOLDER = Buffer.from('Keeps the folder, which Triton needs to see this version.\n');

const GOLDEN_FILE = 'golden.json';

export async function desiredModels(models: readonly RepositoryModel[]): Promise<DesiredModel[]> {
  const desired: DesiredModel[] = [];
  // One after the other, because each large file that is hashed needs a buffer.
  for (const model of models) desired.push(await toDesired(model));
  return topologicalOrder(desired);
}

async function toDesired(model: RepositoryModel): Promise<DesiredModel> {
  const files: DesiredFile[] = [];
  for (const { version, files: inVersion } of model.versions.filter((one) => model.served.includes(one.version))) {
    if (inVersion.length === 0) {
      files.push(fromBody(`${version}/.keep`, VERSION_PLACEHOLDER));
    }
    for (const file of inVersion.filter(({ key }) => !isTraceRecord(key))) files.push(await fromFile(file));
  }
  for (const file of model.extraFiles) files.push(await fromFile(file));
  const config = { ...model.config };
  delete config.version_policy;
  return {
    name: model.name,
    served: model.served,
    composedOf: stepModels(model.config),
    config: configText(config),
    files: files.sort((a, b) => (a.path < b.path ? -1 : 1)),
    newest: Math.max(0, ...model.versions.map(({ version }) => version)),
    ...(await describeWeights(model)),
    golden: model.golden.length === 0 ? undefined : fromBody(GOLDEN_FILE, encodeGolden(model.golden)),
  };
}

const fromFile = async (file: { key: string; bytes: number; path: string }): Promise<DesiredFile> => ({
  path: file.key,
  bytes: file.bytes,
  checksum: await checksumOfFile(file.path, file.bytes),
  source: { file: file.path },
});

const fromBody = (path: string, body: Buffer): DesiredFile => ({
  path,
  bytes: body.byteLength,
  checksum: checksumOfBytes(body),
  source: { body },
});

/** Reads origin and kind of the weights from the trace records beside the artifacts. */
async function describeWeights(
  model: RepositoryModel,
): Promise<Required<Pick<DesiredModel, 'weights' | 'weightKinds'>>> {
  const weights: Record<string, string> = {};
  const weightKinds: Record<string, WeightKind> = {};
  for (const { version, files } of model.versions) {
    const trace = files.find(({ key }) => isTraceRecord(key));
    if (trace === undefined) continue;
    try {
      const { description, kind } = (JSON.parse(await readFile(trace.path, 'utf8')) as TraceFile).weights ?? {};
      if (description !== undefined) weights[String(version)] = description;
      if (kind === 'pretrained' || kind === 'random') weightKinds[String(version)] = kind;
    } catch {
      // The file was not written by our tracing.
    }
  }
  return { weights, weightKinds };
}

interface TraceFile {
  weights?: { description?: string; kind?: string };
}
