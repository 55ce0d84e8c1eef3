import { readdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { UserError } from '../core/errors';
import { formatBytes } from '../core/format';
import type { RepositoryLocation } from '../release/location';
import type { Manifest } from '../release/manifest';
import type { S3Store } from '../s3/store';
import { ContentStore, getReleaseUnits, WrongBytesError } from './content-store';
import type { Report } from './events';
import { Releases } from './releases';
import { RequestRefusedError } from './trial-desk';

export interface DownloadOptions {
  store: S3Store;
  location: RepositoryLocation;
  /** The agent's disk. */
  directory: string;
  /** Most bytes that the files of releases may take. Default: what is free on the file system. */
  diskBytes?: number | undefined;
  report: Report;
}

/** The releases on the disk of this pod: their manifests, and the files that Triton needs to serve them. */
export class Downloads {
  readonly releases: Releases;
  readonly content: ContentStore;
  /** For metrics. */
  readonly total = { bytes: 0, failures: 0 };
  /** Size of each content of a release that was fetched or found. */
  private sizes = new Map<string, number>();
  /** The release whose files are the only ones on this disk. */
  private tidied: string | undefined;

  constructor(private readonly options: DownloadOptions) {
    const { store, location, directory } = options;
    this.releases = new Releases(store, location, join(directory, 'releases'));
    this.content = new ContentStore(join(directory, 'store'));
  }

  isComplete(release: Manifest): boolean {
    return this.content.missing(getReleaseUnits(release)).length === 0;
  }

  /**
   * Brings a release to this disk: its manifest, and its files.
   * @param manifestSha256 of the manifest; undefined if only one on the disk is accepted
   * @throws WrongBytesError, UserError, S3Error
   */
  async fetch(id: string, manifestSha256: string | undefined, signal: AbortSignal): Promise<Manifest> {
    let release: Manifest | undefined;
    try {
      release = await this.releases.read(id, manifestSha256);
      if (!this.isComplete(release)) await this.download(release, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      this.total.failures += 1;
      throw (error as NodeJS.ErrnoException).code === 'ENOSPC' ? this.diskIsFull(id, release, error) : error;
    }
    for (const [content, bytes] of getSizes(release)) this.sizes.set(content, bytes);
    return release;
  }

  get bytesOnDisk(): number {
    return [...this.sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  private async download(release: Manifest, signal: AbortSignal): Promise<void> {
    const { report } = this.options;
    const begun = performance.now();
    const before = this.total.bytes;
    this.tidied = undefined;
    report({ event: 'download', release: release.id });
    this.requireSpace(release);
    await this.fill(release, signal).catch((error: unknown) => {
      // Retried once, because a byte may have changed during the transfer.
      if (error instanceof WrongBytesError) return this.fill(release, signal);
      throw error;
    });
    const ms = Math.round(performance.now() - begun);
    report({ event: 'downloaded', release: release.id, bytes: this.total.bytes - before, ms });
  }

  private fill(release: Manifest, signal: AbortSignal): Promise<void> {
    const { store } = this.options;
    return this.content.fill(getReleaseUnits(release), {
      read: ({ key }, range, take) => store.stream(key, range, take),
      signal,
      onBytes: (more) => (this.total.bytes += more),
    });
  }

  /** @throws RequestRefusedError if the files that are missing do not fit on the disk */
  requireSpace(release: Manifest): void {
    const bytes = this.missingBytes(release);
    const free = this.freeBytes();
    if (bytes <= free) return;
    throw new RequestRefusedError(
      507,
      `the release needs ${formatBytes(bytes)} on the disk of this pod, and ${formatBytes(free)} are free`,
      { bytes, free },
    );
  }

  /** @param release undefined if not even its manifest is on the disk */
  private diskIsFull(id: string, release: Manifest | undefined, cause: unknown): UserError {
    const missing = release === undefined ? 'its manifest' : `${formatBytes(this.missingBytes(release))} more`;
    return new UserError(
      `the disk of this pod became full during the download: release ${id} needs ${missing}, and ` +
        `${formatBytes(this.freeBytes())} are free`,
      { hint: 'give the pods a larger disk, or publish fewer models and versions', cause },
    );
  }

  private missingBytes(release: Manifest): number {
    const files = this.content.missing(getReleaseUnits(release)).flatMap((unit) => unit.files);
    return files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** The file system of an emptyDir is that of the node, which does not show the limit of the volume. */
  private freeBytes(): number {
    const { directory, diskBytes } = this.options;
    const { bavail, bsize } = statfsSync(directory);
    if (diskBytes === undefined) return bavail * bsize;
    return Math.max(0, Math.min(bavail * bsize, diskBytes - bytesBelow(this.content.directory)));
  }

  /**
   * Deletes files that are not those of the release, so that `fetch` downloads them again.
   * @returns versions and names of what was deleted
   */
  deleteDamaged(release: Manifest): Promise<string[]> {
    return this.content.deleteDamaged(getReleaseUnits(release));
  }

  /** Deletes the files of every other release. */
  async keepOnly(release: Manifest): Promise<void> {
    if (release.id === this.tidied) return;
    this.releases.keep([release.id]);
    await this.content.keep(getReleaseUnits(release));
    this.sizes = getSizes(release);
    this.tidied = release.id;
  }
}

/** Bytes of all files in a folder and its folders, unfinished ones too. */
function bytesBelow(directory: string): number {
  let sum = 0;
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    // A download can delete or rename a file meanwhile.
    const stat = statSync(join(directory, path), { throwIfNoEntry: false });
    if (stat?.isFile() === true) sum += stat.size;
  }
  return sum;
}

const getSizes = (release: Manifest): Map<string, number> =>
  new Map(
    getReleaseUnits(release).map(({ content, files }) => [content, files.reduce((sum, { bytes }) => sum + bytes, 0)]),
  );
