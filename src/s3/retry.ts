import { ConnectionError } from './send-request';
import type { S3Error } from './errors';

/** Errors that a retry may solve, because the server was overloaded or the connection failed. */
const TRANSIENT_CODES = new Set([
  'RequestTimeout',
  'RequestTimeoutException',
  'SlowDown',
  'ThrottlingException',
  'Throttling',
  'TooManyRequests',
  'InternalError',
  'ServiceUnavailable',
  'OperationAborted',
  'ConditionalRequestConflict',
  // Bytes were corrupted in transit. A retry sends the bytes in memory again.
  'BadDigest',
  'InvalidDigest',
  'MalformedXML',
  'XAmzContentSHA256Mismatch',
  'XAmzContentChecksumMismatch',
  'IncompleteBody',
  'MalformedAnswer',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'HPE_INVALID_CONSTANT',
]);

/** Errors that a retry may solve only if the server has answered before. Otherwise the address is probably wrong. */
const TRANSIENT_ONCE_ANSWERED = new Set(['ECONNREFUSED', 'ENOTFOUND']);

const TRANSIENT_STATUS = new Set([429, 500, 502, 503, 504]);

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 5000;

/** Whether a retry may help. */
export function isTransient(failure: S3Error, answeredBefore: boolean): boolean {
  if (TRANSIENT_CODES.has(failure.code)) return true;
  if (TRANSIENT_ONCE_ANSWERED.has(failure.code)) return answeredBefore;
  return failure.status !== undefined && TRANSIENT_STATUS.has(failure.status);
}

/** Whether the server asked for fewer requests. */
export function isOverload({ status, code }: S3Error): boolean {
  return status === 503 || status === 429 || code === 'SlowDown';
}

/**
 * Wait before the next try, in ms: exponential backoff with full jitter. The first retry after a stale idle connection
 * does not wait.
 */
export function waitBefore(failure: S3Error, tries: number, random: () => number): number {
  if (tries === 1 && failure.cause instanceof ConnectionError && failure.cause.stale) return 0;
  return random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
}
