import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { countOf, countRequests, readCounts } from '../../../../tools/bench/sync/requests';
import { Scratch } from '../../../support/scratch';

/** Of versitygw 1.8.0. */
const LINES = [
  'log starts 2026-11-20 14:24:54.988642899 +0000 UTC m=+0.015133431',
  'local bench [20/November/2026:14:24:56 +0000] 127.0.0.1 local TSIBLBVTI1RBDKDX s3_ListObjectsV2 - /bench?list-type=2&prefix=p%2F 200 - 228 0 0 0 - agent (a; b) - Q4=  SigV4',
  'local bench [20/November/2026:14:24:56 +0000] 127.0.0.1 local CXND7CJ5QOM32F73 s3_PutObject p/1/x /bench/p/1/x 200 - 0 1000 6 6 - agent - Q4= SigV4',
  'local bench [20/November/2026:14:24:57 +0000] 127.0.0.1 local CXND7CJ5QOM32F74 s3_PutObject p/1/ local s3_HeadObject x /bench 200 - 0 1000 6 6 - agent - Q4= SigV4',
  'local bench [20/November/2026:14:24:58 +0000] 127.0.0.1 local SNJTC81HWE6GF74R s3_HeadObject r /bench/r 404 NoSuchKey 0 0 0 0 - rclone/v1.75.2 - 84= SigV4',
];

test('requests are counted by operation, once for each line', () => {
  expect(readCounts(LINES.join('\n'))).toEqual({ ListObjectsV2: 1, PutObject: 2, HeadObject: 1 });
});

test('only what is asked while the work runs is counted', async () => {
  const scratch = new Scratch();
  try {
    const log = join(scratch.directory, 'access.log');
    writeFileSync(log, `${LINES.join('\n')}\n`);
    const counts = await countRequests(log, async () => appendFileSync(log, `${LINES[2]}\n${LINES[2]}\n`));
    expect(counts).toEqual({ PutObject: 2 });
  } finally {
    await scratch.clean();
  }
});

test('operations are added up by how they begin', () => {
  const counts = { ListObjects: 2, ListObjectsV2: 3, HeadObject: 1, HeadBucket: 4 };
  expect([countOf(counts, 'ListObjects'), countOf(counts, 'Head'), countOf(counts, 'Put')]).toEqual([5, 5, 0]);
});
