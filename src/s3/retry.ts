import type { S3Error } from './errors';
import { ConnectionError } from './send-request';

/** The server, or KMS behind it, asks for fewer requests. */
const THROTTLING =
  /Throttl|^SlowDown$|^BandwidthLimitExceeded$|LimitExceeded|ThroughputExceeded|^TooManyRequests|^PriorRequestNotComplete$|^TransactionInProgress/;

/**
 * Codes of answers that a retry may solve: the server failed, only one of several writes can succeed, or the bytes were
 * damaged in transit.
 */
const TRANSIENT_CODE =
  /^(InternalError|ServiceUnavailable|OperationAborted|RequestTimeout(Exception)?|TimeoutError|ConditionalRequestConflict|BadDigest|InvalidDigest|MalformedXML|XAmzContent(SHA256|Checksum)Mismatch|IncompleteBody|MalformedAnswer)$/;

/**
 * Failures of the network that a retry may solve even if the server never answered. Others, such as ECONNREFUSED, then
 * mean that the address is wrong.
 */
const NETWORK_CODE =
  /^(ECONNRESET|ECONNABORTED|EPIPE|ETIMEDOUT|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ENETDOWN|HPE_INVALID_CONSTANT|ProxyUnavailable)$|BAD_RECORD_MAC/;

/** Certificates that Node rejects, and a proxy or server that lacks a feature. No retry changes them. */
const REJECTED_CODE =
  /^Proxy|^RangeIgnored$|CERT|^CRL_|^UNABLE_TO_|^HOSTNAME_MISMATCH$|^INVALID_(CA|PURPOSE)$|^PATH_LENGTH_EXCEEDED$/;

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 5000;

/** Whether the error code of an answer means that a retry may help. */
export const isTransientCode = (code: string): boolean => THROTTLING.test(code) || TRANSIENT_CODE.test(code);

/** Whether a retry may help. */
export function isTransient({ code, status, cause }: S3Error, answeredBefore: boolean): boolean {
  if (isTransientCode(code) || NETWORK_CODE.test(code)) return true;
  if (status !== undefined) return [408, 429, 500, 502, 503, 504].includes(status);
  return answeredBefore && cause instanceof ConnectionError && !REJECTED_CODE.test(code);
}

/**
 * Whether the network or the server is unavailable, which may take a while: then only the time limits the retries. Other
 * failures probably occur again.
 */
export function isOutage({ code, status, cause }: S3Error): boolean {
  if (status === undefined) return cause instanceof ConnectionError;
  return [429, 502, 503, 504].includes(status) || THROTTLING.test(code);
}

/** Wait before the next try, in ms: exponential backoff with full jitter. */
export const waitBefore = (tries: number): number =>
  Math.random() * Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1));
