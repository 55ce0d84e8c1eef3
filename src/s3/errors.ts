import { UserError } from '../core/errors';

/** The condition of a write was not met, because another writer changed the object. */
export class PreconditionFailedError extends UserError {
  override readonly name = 'PreconditionFailedError';
}

/** A file does not have the expected content, or changed during the upload. No part of it stays in the bucket. */
export class FileChangedError extends UserError {
  override readonly name = 'FileChangedError';
}

/** Details of a failed request. */
export interface FailureDetails {
  /** Error code of S3 or of the operating system. */
  code: string;
  /** HTTP status, if there was an answer. */
  status?: number;
  /** Error message of S3 or of the operating system. */
  text?: string;
  /** Region of the bucket, as S3 reports it. */
  region?: string;
  /** Offset of the server's clock from ours, in ms. */
  clockOffsetMs?: number;
  /** Next step, if the cause knows a better one than the code gives. */
  hint?: string;
  cause?: unknown;
}

/** A failed request, with a message for the user. `code` and `status` are for the calling code. */
export class S3Error extends UserError {
  override readonly name = 'S3Error';
  readonly code: string;
  readonly status: number | undefined;
  readonly clockOffsetMs: number | undefined;
  readonly region: string | undefined;

  /**
   * @param what the operation, as in "list s3://bucket/prefix"
   * @param endpoint URL to which the request was sent
   */
  constructor(what: string, endpoint: string, details: FailureDetails) {
    const { code, status, text, cause } = details;
    const parts = [code, status === undefined ? '' : `(HTTP ${status})`, text === code ? '' : (text ?? '')];
    super(`cannot ${what} at ${endpoint}: ${parts.filter((part) => part !== '').join(' ')}`, {
      hint: details.hint ?? adviceFor(details, endpoint),
      cause,
    });
    this.code = code;
    this.status = status;
    this.clockOffsetMs = details.clockOffsetMs;
    this.region = details.region;
  }
}

const NO_BUCKET = 'create the bucket ("pulumi up" or "aws s3 mb s3://NAME"), or correct its name';
const NO_SPACE = 'the server has no space left: free some, and run the command again';

/** Next step if Node does not trust the certificate of a server. */
export const NOT_TRUSTED =
  'the certificate is not trusted: set NODE_EXTRA_CA_CERTS or AWS_CA_BUNDLE to the file of its certificate authority';

const CHANGED_IN_TRANSIT = 'the data was changed in transit: run the command again; if it fails again, check proxies';

const SERVER_FAILED = 'the server failed: try again later';

/** Next step, by error code. */
const ADVICE: Record<string, string> = {
  NoSuchBucket: NO_BUCKET,
  NotFound: NO_BUCKET,
  AccessDenied: 'the credentials lack the permission: check the publisher role and the bucket policy',
  Forbidden: 'the credentials lack the permission: check the publisher role, the bucket policy and --region',
  AllAccessDisabled: 'access to the bucket is disabled: check its name',
  InvalidBucketName: 'correct the name of the bucket',
  InvalidAccessKeyId: 'the access key is unknown to this endpoint: check AWS_ACCESS_KEY_ID or AWS_PROFILE',
  XAdminUserNotFound: 'the access key is unknown to this endpoint: check AWS_ACCESS_KEY_ID or AWS_PROFILE',
  SignatureDoesNotMatch: 'the secret key is wrong: check AWS_SECRET_ACCESS_KEY or AWS_PROFILE',
  InvalidToken: 'the session token is wrong: check AWS_SESSION_TOKEN, or sign in again ("aws sso login")',
  ExpiredToken: 'the credentials have expired: sign in again ("aws sso login")',
  ExpiredTokenException: 'the credentials have expired: sign in again ("aws sso login")',
  RequestTimeTooSkewed: 'the clock of this machine is wrong: correct it',
  PermanentRedirect: 'the bucket is in another region: set --region',
  TemporaryRedirect: 'the bucket is in another region, or was created just now: set --region, or try again later',
  NotS3: 'correct --endpoint-url (AWS_ENDPOINT_URL), and check whether a proxy or sign-in page answered',
  AuthorizationHeaderMalformed: 'the bucket is in another region: set --region',
  IllegalLocationConstraintException: 'the bucket is in another region: set --region',
  BadDigest: CHANGED_IN_TRANSIT,
  ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC: CHANGED_IN_TRANSIT,
  ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC: CHANGED_IN_TRANSIT,
  ConditionalRequestConflict: 'another program wrote the object at the same time: run the command again',
  SlowDown: 'S3 limits the rate of requests: try again later',
  EntityTooLarge: 'S3 does not accept an object of this size',
  InternalError: SERVER_FAILED,
  QuotaExceeded: NO_SPACE,
  InsufficientStorage: NO_SPACE,
  NotImplemented: 'this S3 server does not support a required operation: use another server',
  MalformedAnswer: 'the answer is not that of an S3 API: check --endpoint-url, and proxies',
  RangeIgnored: 'the server, or a proxy before it, ignores the header Range: use another server, or correct the proxy',
  ECONNREFUSED: 'no server listens at this address: check --endpoint-url',
  ENOTFOUND: 'the host is unknown: check --endpoint-url, --region and the network',
  EAI_AGAIN: 'DNS does not answer: check the network',
  EHOSTUNREACH: 'the host cannot be reached: check --endpoint-url and the network',
  ENETUNREACH: 'the network cannot be reached: check the network of this machine',
  ECONNRESET: 'the connection was reset repeatedly: check the network, and try again later',
  ETIMEDOUT: 'the server does not answer: check --endpoint-url and the network, and try again later',
  EPROTO: 'the server does not speak TLS: check whether --endpoint-url begins with http or https',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS: check whether --endpoint-url begins with http or https',
  DEPTH_ZERO_SELF_SIGNED_CERT: NOT_TRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: NOT_TRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: NOT_TRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: NOT_TRUSTED,
};

/** Whether the server has no space left for a write. */
export function isOutOfRoom(error: unknown): boolean {
  return error instanceof S3Error && (error.status === 507 || error.code === 'QuotaExceeded');
}

/** Error codes for answers without a body, such as those to HEAD. */
const CODE_OF_STATUS: Record<number, string> = {
  301: 'PermanentRedirect',
  307: 'TemporaryRedirect',
  400: 'BadRequest',
  403: 'Forbidden',
  404: 'NotFound',
  412: 'PreconditionFailed',
  429: 'TooManyRequests',
  500: 'InternalError',
  501: 'NotImplemented',
  502: 'BadGateway',
  503: 'ServiceUnavailable',
  504: 'GatewayTimeout',
  507: 'InsufficientStorage',
};

/** Error code for an answer without one. */
export function codeOfStatus(status: number): string {
  return CODE_OF_STATUS[status] ?? `HTTP${status}`;
}

const OTHER_REGION = [
  'PermanentRedirect',
  'TemporaryRedirect',
  'AuthorizationHeaderMalformed',
  'IllegalLocationConstraintException',
  'BadRequest',
];

/** Whether S3 reports that the bucket is in another region. */
export const isOtherRegion = ({ code, region }: S3Error): boolean =>
  region !== undefined && OTHER_REGION.includes(code);

/** Whether S3 rejected credentials that were valid once. */
export const isExpired = ({ code }: S3Error): boolean =>
  ['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired'].includes(code);

/** Next step for AccessDenied, by what AWS writes about the reason. */
const DENIED_ADVICE: [pattern: RegExp, advice: string][] = [
  [
    /kms:/,
    'allow this identity to use the key: kms:GenerateDataKey and kms:Decrypt, in its policy and in that of the key',
  ],
  [
    /explicit deny/,
    'a policy denies it: check which VPC endpoint, network, or header (such as encryption) the policies of bucket and organization demand',
  ],
];

function adviceFor({ code, status, region, text = '' }: FailureDetails, endpoint: string): string | undefined {
  if (region !== undefined && OTHER_REGION.includes(code)) {
    return `the bucket is in ${region}: set --region ${region}, and remove --endpoint-url (AWS_ENDPOINT_URL) if it names another region`;
  }
  if (code === 'AccessDenied') return (DENIED_ADVICE.find(([pattern]) => pattern.test(text)) ?? [])[1] ?? ADVICE[code];
  if (code === 'ECONNRESET' && endpoint.startsWith('http:'))
    return `${ADVICE[code]}; if the server speaks TLS, write https`;
  if (status !== undefined && status >= 500) return ADVICE[code] ?? SERVER_FAILED;
  return ADVICE[code];
}
