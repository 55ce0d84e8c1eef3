import { randomBytes } from 'node:crypto';
import { encodeHead, parseHead, type Head } from '../../src/release/head';
import { headKey, releaseKey, type RepositoryLocation } from '../../src/release/location';
import { encodeManifest, sha256Hex, type Manifest, type ReleasedFile } from '../../src/release/manifest';
import type { S3Store } from '../../src/s3/store';
import { forEachLimited } from '../../src/core/concurrency';

/** A model without computation. */
export interface BenchModel {
  /** Versions that are served. */
  served: number[];
  files: ReleasedFile[];
  /** Instances; default 1. */
  count?: number;
}

/** A release that no agent was asked to serve yet. */
export interface WrittenRelease {
  id: string;
  manifestSha256: string;
  base: number;
  secret: string;
  /** Bytes of the files that it serves. */
  servedBytes: number;
}

/** A model repository in S3, written as a publisher writes it, for agents and for servers that read S3 themselves. */
export class BenchRepository {
  constructor(
    readonly store: S3Store,
    readonly location: RepositoryLocation,
  ) {}

  /** Uploads files of random content. @param sizes path in the repository (`MODEL/1/weights`) -> bytes */
  async upload(sizes: Readonly<Record<string, number>>): Promise<ReleasedFile[]> {
    const files: ReleasedFile[] = [];
    // One large file at a time, because its content is in memory.
    const limit = Math.max(...Object.values(sizes)) > 1e6 ? 1 : 32;
    await forEachLimited(Object.entries(sizes), limit, async ([name, bytes]) => {
      const key = `${this.location.prefix}/${name}`;
      const body = Buffer.alloc(bytes, randomBytes(64 * 1024));
      const { checksum } = await this.store.putBytes(key, body);
      files.push({ path: name.replace(/^[^/]+\//, ''), key, bytes, checksum });
    });
    return files.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** Writes the configurations that a server needs which reads the repository itself. */
  async configure(models: Readonly<Record<string, BenchModel>>): Promise<void> {
    for (const [name, model] of Object.entries(models)) {
      const policy = `version_policy { specific { versions: [${model.served.join(', ')}] } }\n`;
      await this.store.putBytes(`${this.location.prefix}/${name}/config.pbtxt`, Buffer.from(getConfig(model) + policy));
    }
  }

  async readHead(): Promise<Head | undefined> {
    const found = await this.store.get(headKey(this.location));
    return found === undefined ? undefined : parseHead(found.body, 'head.json');
  }

  /** Writes the manifest of a release. */
  async release(models: Readonly<Record<string, BenchModel>>): Promise<WrittenRelease> {
    const head = await this.readHead();
    const secret = randomBytes(16).toString('hex');
    const manifest: Manifest = {
      id: `${new Date().toISOString().replace(/[-:.]/g, '')}-${randomBytes(4).toString('hex')}`,
      createdAt: new Date().toISOString(),
      previous: head?.release,
      base: head?.generation ?? 0,
      origin: 'bench',
      by: 'bench',
      trialKey: sha256Hex(secret),
      models: Object.fromEntries(
        Object.entries(models).map(([name, model]) => [
          name,
          { served: model.served, composedOf: [], config: getConfig(model), files: model.files },
        ]),
      ),
      former: [],
    };
    const body = encodeManifest(manifest);
    await this.store.putBytes(releaseKey(this.location, manifest.id), body, { ifAbsent: true });
    const servedBytes = Object.values(models)
      .flatMap(({ files, served }) => files.filter(({ path }) => served.some((one) => path.startsWith(`${one}/`))))
      .reduce((sum, { bytes }) => sum + bytes, 0);
    return { id: manifest.id, manifestSha256: sha256Hex(body), base: manifest.base, secret, servedBytes };
  }

  /** Makes the release the current one. @returns the generation of head.json */
  async commit({ id, manifestSha256 }: WrittenRelease): Promise<number> {
    const before = await this.readHead();
    const generation = (before?.generation ?? 0) + 1;
    const retained = [...(before?.retained ?? []), id];
    const head = { generation, release: id, manifestSha256, retained, sweep: 0, writer: 'bench' };
    await this.store.putBytes(headKey(this.location), encodeHead(head));
    return generation;
  }
}

/** The configuration of a model without computation. */
export const getConfig = ({ count = 1 }: Pick<BenchModel, 'count'>): string => `backend: "identity"
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "x" data_type: TYPE_FP32 dims: -1 }
instance_group { count: ${count} kind: KIND_CPU }
`;
