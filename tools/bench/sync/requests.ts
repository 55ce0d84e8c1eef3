import { readFileSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Requests by operation: `PutObject`, `ListObjectsV2`, ... */
export type RequestCounts = Record<string, number>;

/** The server may log a request after it answered. */
const SETTLE_MS = 200;

/** Counts the requests to an S3 server while `work` runs, from its access log. */
export async function countRequests(accessLog: string, work: () => Promise<unknown>): Promise<RequestCounts> {
  const { size } = statSync(accessLog);
  await work();
  await sleep(SETTLE_MS);
  return readCounts(readFileSync(accessLog).subarray(size).toString('utf8'));
}

/**
 * Counts operations in the format of S3's access logs, where the operation follows the request id: `... ID s3_PutObject
 * KEY ...`.
 */
export function readCounts(lines: string): RequestCounts {
  const counts: RequestCounts = {};
  for (const [, operation] of lines.matchAll(/ \S+ \S+ s3_(\w+) /g)) {
    if (operation !== undefined) counts[operation] = (counts[operation] ?? 0) + 1;
  }
  return counts;
}

/** Number of requests with operations that start with `beginning`. */
export function countOf(counts: RequestCounts, beginning: string): number {
  return Object.entries(counts)
    .filter(([operation]) => operation.startsWith(beginning))
    .reduce((sum, [, count]) => sum + count, 0);
}
