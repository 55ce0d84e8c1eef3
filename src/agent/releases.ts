import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../core/errors';
import { NO_RELEASE, parseHead, type Head } from '../release/head';
import { headKey, releaseKey, viewKey, type RepositoryLocation } from '../release/location';
import { parseManifest, sha256Hex, type Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import { WrongBytesError } from './content-store';
import { replaceFile } from './pod-files';

const NOTHING: Manifest = {
  id: NO_RELEASE,
  createdAt: '1970-01-01T00:00:00.000Z',
  origin: '',
  by: '',
  base: 0,
  trialKey: '',
  models: Object.create(null) as Manifest['models'],
  former: [],
};
const NO_HEAD: Head = {
  generation: 0,
  release: NO_RELEASE,
  manifestSha256: '',
  retained: [],
  sweep: 0,
  writer: '',
};

/** head.json and the manifests of a repository. Manifests are kept on disk, because they never change. */
export class Releases {
  constructor(
    private readonly store: S3Store,
    private readonly location: RepositoryLocation,
    private readonly directory: string,
  ) {
    mkdirSync(directory, { recursive: true });
  }

  async readHead(): Promise<Head> {
    const key = headKey(this.location);
    const found = await this.store.get(key);
    if (found !== undefined) return parseHead(found.body, this.name(key));
    // It is written after the first commit.
    if ((await this.store.get(viewKey(this.location))) === undefined) return NO_HEAD;
    throw new UserError(`${this.name(key)} is missing, although releases were committed`, {
      hint: 'write it again: rollback --repair',
    });
  }

  /**
   * @throws WrongBytesError if the manifest is not the one with this SHA-256
   * @throws UserError if it does not exist
   */
  async read(id: string, manifestSha256: string | undefined): Promise<Manifest> {
    const kept = this.onDisk(id, manifestSha256);
    if (kept !== undefined) return kept;
    const key = releaseKey(this.location, id);
    const found = await this.store.get(key);
    if (found === undefined) throw new UserError(`${this.name(key)} does not exist`);
    if (sha256Hex(found.body) !== manifestSha256) {
      throw new WrongBytesError(`${this.name(key)} is not the manifest that was published`, {
        hint: 'restore the first version of that object',
      });
    }
    const manifest = parseManifest(found.body, this.name(key));
    replaceFile(this.path(id), found.body);
    return manifest;
  }

  /** The release, if its manifest is on disk, and is intact. */
  onDisk(id: string, manifestSha256?: string): Manifest | undefined {
    if (id === NO_RELEASE) return NOTHING;
    const path = this.path(id);
    if (!existsSync(path)) return undefined;
    const body = readFileSync(path);
    if (manifestSha256 !== undefined && sha256Hex(body) !== manifestSha256) return undefined;
    try {
      return parseManifest(body, path);
    } catch {
      return undefined; // Damaged, as after a loss of power.
    }
  }

  /** Deletes the manifests on disk but these. */
  keep(ids: readonly string[]): void {
    for (const name of readdirSync(this.directory)) {
      if (!ids.includes(name.replace(/\.json$/, ''))) rmSync(join(this.directory, name));
    }
  }

  private path(id: string): string {
    return join(this.directory, `${id}.json`);
  }

  private name(key: string): string {
    return `s3://${this.store.bucket}/${key}`;
  }
}
