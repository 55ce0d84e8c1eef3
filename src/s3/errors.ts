import { UserError } from '../core/errors';

/** The condition of a write was not met, because another writer changed the object. */
export class PreconditionFailedError extends UserError {
  override readonly name = 'PreconditionFailedError';
}

/** A file does not have the expected content, or changed during the upload. No part of it stays in the bucket. */
export class FileChangedError extends UserError {
  override readonly name = 'FileChangedError';
}

export interface FailureDetails {
  /** Error code of S3 or of the operating system. */
  code: string;
  /** HTTP status, if there was an answer. */
  status?: number;
  /** Error message of S3 or of the operating system. */
  text?: string;
  region?: string | undefined;
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
      hint: details.hint ?? getAdvice(details),
      cause,
    });
    this.code = code;
    this.status = status;
    this.clockOffsetMs = details.clockOffsetMs;
    this.region = details.region;
  }
}

/** Next step if Node does not trust the certificate of a server. */
export const NOT_TRUSTED =
  'the certificate is not trusted: set NODE_EXTRA_CA_CERTS or AWS_CA_BUNDLE to the file of its certificate authority';

const KMS = 'in the policy of this identity and in that of the key, allow kms:GenerateDataKey and kms:Decrypt';
const DENIED =
  'a policy denies it: check which VPC endpoint, network or header (such as encryption) the policies demand';

/** Next step, by error code and message. The first match counts. */
const ADVICE: [pattern: RegExp, advice: string][] = [
  [/^(NoSuchBucket|NotFound) /, 'create the bucket ("pulumi up" or "aws s3 mb s3://NAME"), or correct its name'],
  [/^AccessDenied .*kms:/, KMS],
  [/^AccessDenied .*explicit deny/, DENIED],
  [
    /^(AccessDenied|Forbidden) /,
    'the credentials lack the permission: check publisher role, bucket policy and --region',
  ],
  [/^(InvalidAccessKeyId|XAdminUser)/, 'the access key is unknown here: check AWS_ACCESS_KEY_ID or AWS_PROFILE'],
  [/^SignatureDoesNotMatch /, 'the secret key is wrong: check AWS_SECRET_ACCESS_KEY or AWS_PROFILE'],
  [/^InvalidToken /, 'the session token is wrong: check AWS_SESSION_TOKEN, or sign in again ("aws sso login")'],
  [/^ExpiredToken/, 'the credentials have expired: sign in again ("aws sso login")'],
  [/^RequestTimeTooSkewed /, 'the clock of this machine is wrong: correct it'],
  [/^(AllAccessDisabled|InvalidBucketName) /, 'correct the name of the bucket'],
  [/^(PermanentRedirect|TemporaryRedirect|Auth|IllegalL)/, 'the bucket is in another region: set --region'],
  [/^NotS3 /, 'correct --endpoint-url (AWS_ENDPOINT_URL), and check whether a proxy or sign-in page answered'],
  [/^BadDigest |BAD_RECORD_MAC /, 'the data was changed in transit: run the command again, and check proxies'],
  [/^ConditionalRequestConflict /, 'another program wrote the object at the same time: run the command again'],
  [/^SlowDown /, 'S3 limits the rate of requests: try again later'],
  [/^EntityTooLarge /, 'S3 does not accept an object of this size'],
  [/^(QuotaExceeded|InsufficientStorage) /, 'the server has no space left: free some, and run the command again'],
  [/^NotImplemented /, 'this S3 server does not support a required operation: use another server'],
  [/^MalformedAnswer /, 'the answer is not that of an S3 API: check --endpoint-url, and proxies'],
  [/^RangeIgnored /, 'the server, or a proxy before it, ignores the header Range: use another server or proxy'],
  [/^ECONNREFUSED /, 'no server listens at this address: check --endpoint-url'],
  [/^ENOTFOUND /, 'the host is unknown: check --endpoint-url, --region and the network'],
  [/^(EHOSTUNREACH|ENETUNREACH|EAI_AGAIN) /, 'the host cannot be reached: check --endpoint-url and the network'],
  [/^ECONNRESET /, 'check the network and whether --endpoint-url begins with http or https, and try again later'],
  [/^ETIMEDOUT /, 'the server does not answer: check --endpoint-url and the network, and try again later'],
  [/^(EPROTO|ERR_SSL_WRONG)/, 'the server does not speak TLS: check whether --endpoint-url begins with http or https'],
  [/SELF_SIGNED|UNABLE_TO_|^CERT_/, NOT_TRUSTED],
  [/^InternalError /, 'the server failed: try again later'],
];

function getAdvice({ code, status = 0, text = '', ...details }: FailureDetails): string | undefined {
  if (isOtherRegion({ code, ...details })) {
    return `the bucket is in ${details.region}: set --region ${details.region}, and remove --endpoint-url (AWS_ENDPOINT_URL) if it names another region`;
  }
  const find = (error: string): string | undefined => ADVICE.find(([pattern]) => pattern.test(error))?.[1];
  return find(`${code} ${text}`) ?? (status >= 500 ? find('InternalError ') : undefined);
}

/** Whether S3 reports that the bucket is in another region. */
export const isOtherRegion = ({ code, region }: { code: string; region?: string | undefined }): boolean =>
  region !== undefined &&
  /^(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException|BadRequest)$/.test(
    code,
  );

/** Error codes for answers without a body, such as those to HEAD. */
const CODE_OF_STATUS: Record<number, string> = {
  ...{ 301: 'PermanentRedirect', 307: 'TemporaryRedirect', 400: 'BadRequest', 403: 'Forbidden', 404: 'NotFound' },
  ...{ 412: 'PreconditionFailed', 500: 'InternalError', 501: 'NotImplemented', 507: 'InsufficientStorage' },
};

export const codeOfStatus = (status: number): string => CODE_OF_STATUS[status] ?? `HTTP${status}`;
