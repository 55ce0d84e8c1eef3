import { ConnectionError } from './send-request';
import type { S3Error } from './errors';

/** The server, or KMS behind it, asks for fewer requests. */
const THROTTLING_CODES = new Set([
  'SlowDown',
  'BandwidthLimitExceeded',
  'EC2ThrottledException',
  'LimitExceededException',
  'PriorRequestNotComplete',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'RequestThrottled',
  'RequestThrottledException',
  'ThrottledException',
  'Throttling',
  'ThrottlingException',
  'TooManyRequests',
  'TooManyRequestsException',
  'TransactionInProgressException',
]);

/** Errors that a retry may solve, because the server failed. */
const SERVER_CODES = new Set([
  'InternalError',
  'ServiceUnavailable',
  'OperationAborted',
  'RequestTimeout',
  'RequestTimeoutException',
  'TimeoutError',
]);

/** Errors that a retry may solve for requests of which only one can succeed, or whose bytes were corrupted in transit. */
const OTHER_TRANSIENT_CODES = new Set([
  'ConditionalRequestConflict',
  // A retry sends the bytes in memory again.
  'BadDigest',
  'InvalidDigest',
  'MalformedXML',
  'XAmzContentSHA256Mismatch',
  'XAmzContentChecksumMismatch',
  'IncompleteBody',
  'MalformedAnswer',
]);

/**
 * Failures of the network that a retry may solve even if the server never answered. Others, such as ECONNREFUSED, then
 * mean that the address is wrong.
 */
const NETWORK_CODES = new Set([
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'HPE_INVALID_CONSTANT',
  'ProxyUnavailable',
]);

/** Codes of TLS records that changed in transit, as this side or the other reports them. */
const isDamagedRecord = (code: string): boolean => code.includes('BAD_RECORD_MAC');

/** Codes of certificates that Node rejects, and of a proxy or server that lacks a feature. No retry changes them. */
const REJECTED_CODE =
  /^Proxy|^RangeIgnored$|CERT|^CRL_|^UNABLE_TO_|^HOSTNAME_MISMATCH$|^INVALID_(CA|PURPOSE)$|^PATH_LENGTH_EXCEEDED$/;

const TRANSIENT_STATUS = new Set([408, 429, 500, 502, 503, 504]);

/** Statuses of a server, or of a proxy before it, that is overloaded or restarts. */
const OUTAGE_STATUS = new Set([429, 502, 503, 504]);

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 5000;

/** Whether the error code of an answer means that a retry may help. */
export const isTransientCode = (code: string): boolean =>
  THROTTLING_CODES.has(code) || SERVER_CODES.has(code) || OTHER_TRANSIENT_CODES.has(code);

/** Whether a retry may help. */
export function isTransient(failure: S3Error, answeredBefore: boolean): boolean {
  const { code, status } = failure;
  if (isTransientCode(code) || NETWORK_CODES.has(code) || isDamagedRecord(code)) return true;
  if (status !== undefined) return TRANSIENT_STATUS.has(status);
  return answeredBefore && failure.cause instanceof ConnectionError && !REJECTED_CODE.test(code);
}

/** Whether the server asked for fewer requests. */
export function isOverload({ status, code }: Pick<S3Error, 'status' | 'code'>): boolean {
  return status === 503 || status === 429 || THROTTLING_CODES.has(code);
}

/**
 * Whether the network or the server is unavailable, which may take a while: then only the time limits the retries. Other
 * failures probably occur again.
 */
export function isOutage(failure: S3Error): boolean {
  const { status } = failure;
  return status === undefined
    ? failure.cause instanceof ConnectionError
    : OUTAGE_STATUS.has(status) || isOverload(failure);
}

/**
 * Wait before the next try, in ms: exponential backoff with full jitter. The first retry after a stale idle connection
 * does not wait.
 */
export function waitBefore(failure: S3Error, tries: number, random: () => number): number {
  if (tries === 1 && failure.cause instanceof ConnectionError && failure.cause.stale) return 0;
  return random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
}
