import { writeFileSync, mkdirSync } from 'node:fs';
import type { RepositoryModel } from '../../../src/model';
import { encodeHead } from '../../../src/release/head';
import { fileKey, headKey, releaseKey, type RepositoryLocation } from '../../../src/release/location';
import { encodeManifest, sha256Hex, type ManifestModel } from '../../../src/release/manifest';
import { checksumOfBytes } from '../../../src/s3/checksum';
import type { MemoryBucket } from '../memory-store';
import { MEMORY_ROOT } from './memory-disk';
import type { ModelChoice } from './scenario';

/** The release that head.json names at the start. */
export const FIRST_RELEASE = '20261101T000000000Z-00000001';

const weights = (version: number, variant: number, isBad: boolean): string =>
  `${isBad ? 'bad' : 'weights'} ${version}${variant === 0 ? '' : ' other'}`;

/** The model as a publisher reads it from a folder. Its files are in memory. */
export function modelOf(name: string, { version, count, variant, labels, isBad }: ModelChoice): RepositoryModel {
  const versions = count > 1 ? [version, version + 1] : [version];
  const newest = versions.at(-1);
  return {
    name,
    directory: '',
    config: { name, backend: 'empty' },
    configText: '',
    platform: 'empty',
    versions: versions.map((number) => ({
      version: number,
      files: [file(`${number}/weights`, weights(number, variant, isBad && number === newest))],
    })),
    served: versions,
    extraFiles: labels === 'none' ? [] : [file('labels.txt', labels)],
    golden: [],
  };
}

function file(key: string, text: string): { key: string; path: string; bytes: number } {
  const path = `${MEMORY_ROOT}/sources/${text.replaceAll(' ', '-')}`;
  mkdirSync(`${MEMORY_ROOT}/sources`, { recursive: true });
  writeFileSync(path, text);
  return { key, path, bytes: text.length };
}

/** Writes a first release, which every pod serves from its start. */
export function writeFirstRelease(bucket: MemoryBucket, location: RepositoryLocation): void {
  const model = (name: string): ManifestModel => {
    const body = Buffer.from(weights(1, 0, false));
    const checksum = checksumOfBytes(body);
    const key = fileKey(location, checksum, 0);
    bucket.put(key, body);
    return {
      served: [1],
      composedOf: [],
      config: `name: "${name}"\nbackend: "empty"\n`,
      files: [{ path: '1/weights', key, bytes: body.byteLength, checksum }],
    };
  };
  const manifest = encodeManifest({
    id: FIRST_RELEASE,
    createdAt: new Date(0).toISOString(),
    previous: undefined,
    base: 0,
    origin: 'first',
    by: 'first',
    trialKey: sha256Hex(''),
    models: { a: model('a'), b: model('b') },
    former: [],
  });
  bucket.put(releaseKey(location, FIRST_RELEASE), manifest);
  bucket.put(
    headKey(location),
    encodeHead({
      generation: 1,
      release: FIRST_RELEASE,
      manifestSha256: sha256Hex(manifest),
      retained: [FIRST_RELEASE],
      sweep: 0,
      writer: 'first',
    }),
  );
}
