import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Downloads } from '../../../src/agent/downloads';
import type { Manifest } from '../../../src/release/manifest';
import type { S3Store } from '../../../src/s3/store';
import { Scratch } from '../../support/temp-dir';

const scratch = new Scratch();
afterAll(() => scratch.clean());

const MIB = 1024 * 1024;

/** A release of one model with one file. */
const release = (bytes: number): Manifest => ({
  id: '20261124T000000000Z-00000000',
  createdAt: '2026-11-24T00:00:00.000Z',
  origin: 'test',
  by: 'test',
  base: 0,
  trialKey: '',
  models: {
    m: {
      served: [1],
      composedOf: [],
      config: '',
      files: [{ path: '1/weights', key: 'm/1/weights', bytes, checksum: '' }],
    },
  },
  former: [],
});

test('requireSpace refuses a release that exceeds diskBytes together with the files in the store, unfinished ones too', () => {
  const directory = join(scratch.directory, 'disk');
  const downloads = new Downloads({
    store: {} as S3Store,
    location: { bucket: 'b', prefix: 'models' },
    directory,
    diskBytes: 10 * MIB,
    report: () => undefined,
  });
  expect(() => downloads.requireSpace(release(10 * MIB))).not.toThrow();
  const folder = join(directory, 'store', 'incomplete-1', '1');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'weights'), Buffer.alloc(4 * MIB));
  expect(() => downloads.requireSpace(release(6 * MIB))).not.toThrow();
  const refusal = { name: 'RequestRefusedError', status: 507, details: { bytes: 6 * MIB + 1, free: 6 * MIB } };
  expect(() => downloads.requireSpace(release(6 * MIB + 1))).toThrow(expect.objectContaining(refusal) as Error);
});

test('a disk that is full before the manifest is on it counts as a failed download', async () => {
  const directory = join(scratch.directory, 'full');
  const downloads = new Downloads({
    store: {} as S3Store,
    location: { bucket: 'b', prefix: 'models' },
    directory,
    report: () => undefined,
  });
  const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  jest.spyOn(downloads.releases, 'read').mockRejectedValue(full);
  await expect(downloads.fetch('r', 'sha256', new AbortController().signal)).rejects.toThrow(
    /^the disk of this pod became full during the download: release r needs its manifest, and .* are free$/,
  );
  expect(downloads.total.failures).toBe(1);
});
