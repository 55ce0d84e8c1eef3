import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { configText, stepModels, withServedVersions, type RepositoryModel } from '../../model';
import { checksumOfBytes, checksumOfFile, type StoredObject } from '../../s3/store';
import { encodeGolden } from '../../model/golden';
import type { DesiredGolden } from '../release/golden-object';
import { CONFIG_FILE, getVersion, isTraceRecord } from '../keys';
import type { WeightKind } from '../release/release';

/** One object that the repository in S3 should hold. */
export interface DesiredObject {
  /** Under the repository prefix: `resnet/1/model.pt`. */
  key: string;
  bytes: number;
  source: ObjectSource;
  /** As S3 stores it. For a file, computeChecksum sets it. */
  checksum?: string;
  /** For an object of a release: its ETag when the release was written. */
  etag?: string;
}

/** Where the bytes are. `stored` lists places in S3; the first place that has the bytes is used. */
export type ObjectSource = { file: string } | { body: Buffer } | { stored: StoredObject[] };

/** The desired state of a model. */
export interface DesiredModel {
  name: string;
  /** Versions that config.pbtxt tells Triton to serve, ascending. */
  served: number[];
  /** Identifies this configuration, the files outside of version folders, and those of the served versions. */
  digest: string;
  /** Models that must be loaded first: the steps of an ensemble. */
  composedOf: string[];
  objects: DesiredObject[];
  /** config.pbtxt. It is written last, which commits the model. */
  config: DesiredObject;
  /** Version -> origin of its weights, if tracing recorded it. */
  weights: Record<string, string>;
  /** Version -> kind of its weights, if tracing recorded it. */
  weightKinds?: Record<string, WeightKind>;
  /** Undefined if the model has no golden requests. */
  golden?: DesiredGolden;
}

/**
 * Name of the parameter of a published configuration that holds the model's digest. Triton returns the parameter with
 * the configuration of a loaded model, so it shows which publication a server has loaded. A changed label file changes
 * the digest and therefore the configuration; Triton would not reload the model otherwise. A version number that is used
 * again for other bytes changes it too.
 */
export const DIGEST_PARAMETER = 'published_digest';

/**
 * Object for an empty version folder, because S3 has no empty folders. The object has content because some tools omit
 * empty objects.
 */
const VERSION_PLACEHOLDER = Buffer.from('Keeps the folder, which Triton needs to see this version.\n');
const VERSION_PLACEHOLDER_CHECKSUM = checksumOfBytes(VERSION_PLACEHOLDER);

/** Bytes after which hashing yields to the requests that read the bucket meanwhile: a few milliseconds. */
const SLICE_BYTES = 4 * 1024 * 1024;

/** The desired state of the models of a folder, in publishing order. */
export async function desiredModels(models: readonly RepositoryModel[]): Promise<DesiredModel[]> {
  const desired: DesiredModel[] = [];
  // One after the other, because each large file that is hashed needs a buffer.
  for (const model of models) desired.push(await toDesired(model));
  return topologicalOrder(desired);
}

async function toDesired(model: RepositoryModel): Promise<DesiredModel> {
  const object = (key: string, bytes: number, source: ObjectSource): DesiredObject => ({
    key: `${model.name}/${key}`,
    bytes,
    source,
  });
  const inVersions = model.versions.flatMap(({ version, files }) =>
    files.length === 0
      ? [
          {
            ...object(`${version}/.keep`, VERSION_PLACEHOLDER.byteLength, { body: VERSION_PLACEHOLDER }),
            checksum: VERSION_PLACEHOLDER_CHECKSUM,
          },
        ]
      : files.map(({ key, bytes, path }) => object(key, bytes, { file: path })),
  );
  const beside = model.extraFiles.map(({ key, bytes, path }) => object(key, bytes, { file: path }));
  const objects = [...inVersions, ...beside].sort((a, b) => (a.key < b.key ? -1 : 1));
  const digest = await getDigest(model, objects);
  const body = Buffer.from(publishedConfig(model, digest));
  return {
    name: model.name,
    served: model.served,
    digest,
    composedOf: stepModels(model.config),
    objects,
    config: { ...object(CONFIG_FILE, body.byteLength, { body }), checksum: checksumOfBytes(body) },
    ...(await describeWeights(model)),
    golden: wantedGolden(model),
  };
}

function wantedGolden({ golden: requests }: RepositoryModel): DesiredGolden | undefined {
  if (requests.length === 0) return undefined;
  const { body, golden } = encodeGolden(requests);
  return { ...golden, body: () => Promise.resolve(body) };
}

/** The object's checksum. That of a file is computed once; an upload then refuses other bytes. */
export async function computeChecksum(object: DesiredObject): Promise<string | undefined> {
  const { source, bytes } = object;
  if (object.checksum === undefined && 'file' in source) object.checksum = await checksumOfFile(source.file, bytes);
  return object.checksum;
}

/**
 * Hashes the configuration and every file that a replica loads with it. Otherwise a replica that loaded other bytes under
 * the same version number would count as up to date.
 */
async function getDigest({ configText, served }: RepositoryModel, objects: readonly DesiredObject[]): Promise<string> {
  const hash = createHash('sha256').update(configText);
  let hashed = 0;
  for (const object of objects) {
    const { key, bytes } = object;
    const version = getVersion(key);
    if (isTraceRecord(key) || (version !== undefined && !served.includes(version))) continue;
    hash.update(`\0${key}\0${await computeChecksum(object)}`);
    if ((hashed += bytes) < SLICE_BYTES) continue;
    await new Promise(setImmediate);
    hashed = 0;
  }
  return hash.digest('hex').slice(0, 32);
}

function publishedConfig(model: RepositoryModel, digest: string): string {
  const config = withServedVersions(model.config, model.served);
  return configText({ ...config, parameters: { ...config.parameters, [DIGEST_PARAMETER]: { string_value: digest } } });
}

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
      // The file was not written by our tracing; it is published like any other file.
    }
  }
  return { weights, weightKinds };
}

interface TraceFile {
  weights?: { description?: string; kind?: string };
}

/**
 * Sorts composing models before their ensembles: a stable topological order. Validation has already rejected cycles.
 */
export function topologicalOrder<T extends { name: string; composedOf: readonly string[] }>(models: readonly T[]): T[] {
  const byName = new Map(models.map((model) => [model.name, model]));
  const ordered = new Set<T>();
  const visit = (model: T, above: ReadonlySet<T>): void => {
    if (ordered.has(model) || above.has(model)) return;
    for (const name of model.composedOf) {
      const step = byName.get(name);
      if (step !== undefined) visit(step, new Set(above).add(model));
    }
    ordered.add(model);
  };
  for (const model of models) visit(model, new Set());
  return [...ordered];
}
