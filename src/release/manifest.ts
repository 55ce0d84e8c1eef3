import { createHash } from 'node:crypto';
import { count, flag, FORMAT, list, map, object, optional, parseObject, text, type Read } from './format';
import { RELEASE_ID, SHA256_HEX } from './head';

/** A file of a model, and the object in S3 that has its content. No object is ever replaced. */
export interface ReleasedFile {
  /** In the model's folder: `1/model.pt`, `labels.txt`. */
  path: string;
  key: string;
  bytes: number;
  /** As checksumOfBytes in src/s3/checksum.ts computes it. */
  checksum: string;
}

/** Whether weights were trained or drawn at random. */
export type WeightKind = 'pretrained' | 'random';

/** A program that was compiled. */
export interface Compiled {
  /** SHA-256 in hex of the exported program and what else determines the compiled one. */
  program: string;
  /** Release of Triton and processors, such as `26.11 7.5 8.6` or `26.11 cpu`. */
  target: string;
}

export interface ManifestModel {
  /** Versions that Triton serves, ascending. */
  served: number[];
  /** Models that must be loaded first: the steps of an ensemble. */
  composedOf: string[];
  /** Version -> kind of its weights, if tracing recorded it. */
  weightKinds?: Record<string, WeightKind> | undefined;
  /** Version -> origin of its weights. */
  weights?: Record<string, string> | undefined;
  /** Version -> what its file was compiled from and for, if `npm run build` has compiled it for a stack. */
  compiled?: Record<string, Compiled> | undefined;
  /** Text of config.pbtxt without version_policy: the agent adds one that names the served versions. */
  config: string;
  /** Every file that Triton needs to serve the model, but config.pbtxt. */
  files: ReleasedFile[];
  /** Its golden requests, if it has any. Replicas do not download this file. */
  golden?: ReleasedFile | undefined;
}

/** The commit that a release was made from, and its message. */
export interface Provenance {
  /** Commit of the repository folder, with a `+` if files in it differ from the commit. */
  commit?: string | undefined;
  message?: string | undefined;
}

/** `PREFIX.releases/ID.json`: the models of a release. Written once. */
export interface Manifest extends Provenance {
  /** Ids sort by time: `20261120T113254123Z-1f2e3d4c`. */
  id: string;
  /** ISO 8601. */
  createdAt: string;
  /** Id of the previous release. */
  previous?: string | undefined;
  /** Origin of the release: `sync-models`, `rollback to ID`, `promoted from s3://...`. */
  origin: string;
  /** The user who made the release: `user@host`. */
  by: string;
  /** For a rollback: id of the release that it restored. */
  restores?: string | undefined;
  /** Set if no model was asked (--no-ask). */
  notAsked?: true | undefined;
  /** Generation of head.json that it replaces; 0 for the first release. */
  base: number;
  /** SHA-256 in hex of the secret without which no agent tries the release. */
  trialKey: string;
  /**
   * Set if Triton's memory does not hold changed models twice: a pod then leaves the Service, unloads the models that
   * change, and loads them.
   */
  unloadFirst?: true | undefined;
  models: Record<string, ManifestModel>;
  /** Files that this release no longer has, of the releases that were retained when it was made. */
  former: FormerFile[];
}

/** A file of a former release: the number of its version stays taken, and its content need not be sent again. */
export interface FormerFile extends ReleasedFile {
  model: string;
  /** The last release that has it. */
  release: string;
}

/** One name in a path: no empty one, no `.` or `..`, no backslash, no control character. */
const NAME = String.raw`(?!\.{1,2}(?:/|$))[^/\\\x00-\x1f]+`;
const FILE = {
  path: text(new RegExp(`^${NAME}(?:/${NAME})*$`)),
  key: text(),
  bytes: count(),
  checksum: text(/^[A-Za-z0-9+/]{43}=(?:-[1-9]\d*)?$/),
};
const readFile = object<ReleasedFile>(FILE);

// Names and paths are checked, because an agent writes files with them.
const readManifest = object<Manifest>({
  id: text(RELEASE_ID),
  createdAt: text(),
  previous: optional(text()),
  origin: text(),
  by: text(),
  commit: optional(text()),
  message: optional(text()),
  restores: optional(text()),
  notAsked: flag,
  base: count(),
  trialKey: text(SHA256_HEX),
  unloadFirst: flag,
  models: map(
    object<ManifestModel>({
      // Triton refuses to read a folder with a version 0, and a model without a version.
      served: list(count(1), 1),
      composedOf: list(text()),
      weights: optional(map(text())),
      weightKinds: optional(map(text() as Read<WeightKind>)),
      compiled: optional(map(object<Compiled>({ program: text(), target: text() }))),
      config: text(),
      files: list(readFile),
      golden: optional(readFile),
    }),
    new RegExp(`^${NAME}$`),
  ),
  former: list(object<FormerFile>({ ...FILE, model: text(), release: text(RELEASE_ID) })),
});

/** @throws FormatError */
export const parseManifest = (body: Buffer, where: string): Manifest => parseObject(body, where, readManifest);

/** The number of the version that a file in a model's folder belongs to: 1 for `1/model.pt`; undefined beside the versions. */
export function getVersion(path: string): number | undefined {
  const found = /^([1-9]\d*)\//.exec(path)?.[1];
  return found === undefined ? undefined : Number(found);
}

/** The files of models in the bucket, golden requests included. */
export const filesOf = <F>({ files, golden }: { files: F[]; golden?: F | undefined }): F[] =>
  golden === undefined ? files : [...files, golden];

export const keysOf = ({ models }: Manifest): string[] =>
  Object.values(models).flatMap((model) => filesOf(model).map(({ key }) => key));

/** The text of config.pbtxt with a policy that names the versions. */
export const configWithVersions = ({ config }: Pick<ManifestModel, 'config'>, versions: readonly number[]): string =>
  `${config.trimEnd()}\nversion_policy { specific { versions: [${versions.join(', ')}] } }\n`;

export const encodeManifest = (manifest: Manifest): Buffer =>
  Buffer.from(JSON.stringify({ format: FORMAT, ...manifest }));

/** What head.json names a manifest by, and trialKey a secret: the SHA-256 in hex. */
export const sha256Hex = (data: Buffer | string): string => createHash('sha256').update(data).digest('hex');
