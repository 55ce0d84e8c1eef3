import { mkdirSync, readFileSync } from 'node:fs';
import { ContentStore } from '../src/agent/content-store';
import type { ReleasedFile } from '../src/release/manifest';
import { S3Store } from '../src/s3/store';

/** The objects that `bench-download` reads. */
export interface DownloadList {
  bucket: string;
  files: ReleasedFile[];
}

/** Downloads and verifies objects as the agent does, for `npm run bench -- --only transfer`. */
export async function main([endpointUrl = '', list = '', directory = '']: readonly string[]): Promise<number> {
  const { bucket, files } = JSON.parse(readFileSync(list, 'utf8')) as DownloadList;
  mkdirSync(directory, { recursive: true });
  const store = new S3Store({ bucket, endpointUrl });
  const unit = { name: 'files', isVersion: false, content: 'content', files };
  await new ContentStore(directory).fill([unit], {
    read: ({ key }, range, take) => store.stream(key, range, take),
  });
  store.close();
  return 0;
}
