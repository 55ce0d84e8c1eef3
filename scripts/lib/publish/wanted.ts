import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { RepositoryModel, SourceFile } from '../model';
import { forEachLimited } from '../pool';

/** One object that the repository in S3 should hold. */
export interface WantedObject {
  /** Under the repository prefix: `resnet/1/model.pt`. */
  key: string;
  bytes: number;
  /** SHA-256 of the content, base64, as S3 keeps it. */
  sha256: string;
  /** Where the bytes are: a file, or the bytes themselves. */
  source: { file: string } | { body: Buffer };
  /** Objects of a version folder are never replaced by other bytes. */
  immutable: boolean;
}

/** One model as it should be. */
export interface WantedModel {
  name: string;
  /** Versions that config.pbtxt has Triton serve, ascending. */
  served: number[];
  /** Models that have to be there first: the steps of an ensemble. */
  composedOf: string[];
  objects: WantedObject[];
  /** config.pbtxt: written last, as the commit of the model. */
  config: WantedObject;
  /** Version -> where its weights come from, where the tracing noted it. */
  weights: Record<string, string>;
}

/** Hashes every file and orders the models: what an ensemble is made of comes before the ensemble. */
export async function wantedModels(models: readonly RepositoryModel[]): Promise<WantedModel[]> {
  const wanted = models.map((model) => ({ model, objects: [] as WantedObject[] }));
  const files = wanted.flatMap(({ model, objects }) =>
    [
      ...model.versions.flatMap(({ files: inVersion }) =>
        inVersion.map((file) => ({ file, immutable: !isTraceRecord(file) })),
      ),
      ...model.extraFiles.map((file) => ({ file, immutable: false })),
    ].map((entry) => ({ ...entry, model, objects })),
  );
  // Two at a time: hashing is bound by the processor.
  await forEachLimited(files, 2, async ({ file, immutable, model, objects }) => {
    objects.push(await fileObject(`${model.name}/${file.key}`, file, immutable));
  });
  const result = await Promise.all(wanted.map(({ model, objects }) => toWanted(model, objects)));
  return composingFirst(result);
}

async function toWanted(model: RepositoryModel, objects: WantedObject[]): Promise<WantedModel> {
  const body = Buffer.from(model.configText);
  return {
    name: model.name,
    served: servedVersions(model),
    composedOf: [...new Set((model.config.ensemble_scheduling?.step ?? []).map((step) => step.model_name ?? ''))],
    objects: objects.sort((a, b) => (a.key < b.key ? -1 : 1)),
    config: {
      key: `${model.name}/config.pbtxt`,
      bytes: body.byteLength,
      sha256: createHash('sha256').update(body).digest('base64'),
      source: { body },
      immutable: false,
    },
    weights: await describeWeights(model),
  };
}

async function fileObject(key: string, file: SourceFile, immutable: boolean): Promise<WantedObject> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file.path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return { key, bytes: file.bytes, sha256: hash.digest('base64'), source: { file: file.path }, immutable };
}

/** The versions Triton will serve by the model's version_policy; its default is the newest one. */
function servedVersions(model: RepositoryModel): number[] {
  const all = model.versions.map(({ version }) => version).sort((a, b) => a - b);
  const policy = model.config.version_policy;
  if (policy?.specific !== undefined) return [...(policy.specific.versions ?? [])].sort((a, b) => a - b);
  if (policy?.all !== undefined) return all;
  return all.slice(-(policy?.latest?.num_versions ?? 1));
}

/**
 * Whether the file is the record beside an artifact (scripts/tracing). It tells how the artifact was made and no server
 * reads it, so it may change while the artifact does not.
 */
function isTraceRecord({ key }: SourceFile): boolean {
  return key.endsWith('.trace.json');
}

/** What the trace files beside the artifacts say about the weights. */
async function describeWeights(model: RepositoryModel): Promise<Record<string, string>> {
  const weights: Record<string, string> = {};
  for (const { version, files } of model.versions) {
    const trace = files.find(isTraceRecord);
    if (trace === undefined) continue;
    try {
      const { description } = (JSON.parse(await readFile(trace.path, 'utf8')) as TraceFile).weights ?? {};
      if (description !== undefined) weights[String(version)] = description;
    } catch {
      // Not ours; it is published as any other file.
    }
  }
  return weights;
}

interface TraceFile {
  weights?: { description?: string };
}

/** A stable topological order; validation has refused loops before. */
function composingFirst(models: readonly WantedModel[]): WantedModel[] {
  const byName = new Map(models.map((model) => [model.name, model]));
  const ordered = new Set<WantedModel>();
  const visit = (model: WantedModel): void => {
    for (const name of model.composedOf) {
      const step = byName.get(name);
      if (step !== undefined && step !== model && !ordered.has(step)) visit(step);
    }
    ordered.add(model);
  };
  for (const model of models) visit(model);
  return [...ordered];
}
