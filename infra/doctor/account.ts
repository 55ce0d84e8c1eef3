import type { KeyState } from '@aws-sdk/client-kms';
import { UserError } from '../../src/core/errors';
import type { Right } from './rights';

export interface Identity {
  /** Twelve digits. */
  account: string;
  /** ARN of a user, of a role's session, or of the root user. */
  arn: string;
}

/** An availability zone: its name differs between accounts, its id does not. */
export interface Zone {
  name: string;
  id: string;
}

export interface Subnet {
  id: string;
  vpcId: string;
  zone: Zone;
  freeAddresses: number;
  /** Whether instances in it get public addresses. */
  givesPublicAddresses: boolean;
  tags: Readonly<Record<string, string>>;
}

/** The route of a subnet to 0.0.0.0/0. */
export interface DefaultRoute {
  /** Id of the NAT gateway, internet gateway, transit gateway or another target. */
  target: string;
  /** False if the target was deleted. */
  isActive: boolean;
}

export interface OfferedVersion {
  version: string;
  support: 'standard' | 'extended' | 'none';
  /** Undefined if EKS names no date. */
  standardSupportUntil: Date | undefined;
}

/** An EKS cluster. */
export interface ClusterFacts {
  tags: Readonly<Record<string, string>>;
  /** Whether access entries decide who may use the Kubernetes API. */
  hasAccessEntries: boolean;
}

export interface OidcProvider {
  audiences: readonly string[];
  tags: Readonly<Record<string, string>>;
}

/** A quota of AWS, in its own unit. */
export interface Quota {
  service: 'ec2' | 'vpc';
  code: string;
  name: string;
}

/** A target of a load balancer. */
export interface BalancerTarget {
  /** `10.0.1.2:8000` */
  address: string;
  /** `healthy`, `initial`, `unhealthy` and others. */
  state: string;
  /** `Target.Timeout` and the like. */
  reason: string | undefined;
}

/** A certificate of AWS Certificate Manager. */
export interface Certificate {
  /** `ISSUED`, `PENDING_VALIDATION`, `EXPIRED` and others. */
  status: string;
  /** Domain names, which may begin with `*.`. */
  names: readonly string[];
  until: Date | undefined;
  /** Whether ACM issued it, and so renews it. */
  isRenewed: boolean;
  /** `PENDING_VALIDATION`, `FAILED` and others, while or after ACM renews it. */
  renewal: string | undefined;
}

export type { KeyState };

/** What the doctor reads in an AWS account, in the region of the stack. Every method may throw a UserError. */
export interface AwsAccount {
  /** Partition of ARNs, such as `aws` or `aws-us-gov`. */
  readonly partition: string;
  identity(): Promise<Identity>;
  /** `opt-in-not-required`, `opted-in` or `not-opted-in`; undefined if the region does not exist. */
  regionStatus(): Promise<string | undefined>;
  zones(): Promise<Zone[]>;
  /** The subnets that exist. */
  subnets(ids: readonly string[]): Promise<Subnet[]>;
  /** The default routes of subnets, by the id of the subnet; those without a route table of their own have that of the VPC. */
  defaultRoutes(vpcId: string, subnetIds: readonly string[]): Promise<ReadonlyMap<string, DefaultRoute>>;
  /** Names of the zones that offer each instance type. */
  zonesOffering(types: readonly string[]): Promise<ReadonlyMap<string, ReadonlySet<string>>>;
  quota(quota: Quota): Promise<number>;
  vpcCount(): Promise<number>;
  addressCount(): Promise<number>;
  eksVersions(): Promise<OfferedVersion[]>;
  /** Undefined if the cluster does not exist. */
  cluster(name: string): Promise<ClusterFacts | undefined>;
  /** ARNs of the principals with an access entry. */
  accessEntries(cluster: string): Promise<string[]>;
  hasLogGroup(name: string): Promise<boolean>;
  /** Undefined if the provider does not exist. */
  oidcProvider(arn: string): Promise<OidcProvider | undefined>;
  /** ARN of a role; undefined if the role does not exist. */
  roleArn(name: string): Promise<string | undefined>;
  /** Undefined if the certificate does not exist. */
  certificate(arn: string): Promise<Certificate | undefined>;
  /** The targets of the load balancer with this host name; undefined if it does not exist. */
  balancerTargets(host: string): Promise<BalancerTarget[] | undefined>;
  /**
   * Throws an S3Error if the bucket cannot be listed.
   * @param identity of Pulumi's AWS provider, or of the shell, with which the Pulumi CLI opens its state
   */
  listBucket(bucket: string, region: string, prefix: string, identity: 'provider' | 'shell'): Promise<void>;
  /** Whether a bucket keeps old versions of its objects. With the identity of the shell. */
  isVersioned(bucket: string, region: string): Promise<boolean>;
  /**
   * Undefined if the key does not exist. With the identity of the shell.
   * @param id or ARN of the key, or `alias/NAME`
   */
  keyState(id: string, region: string): Promise<KeyState | undefined>;
}

/** The caller may not send a request. */
export class MissingRightError extends UserError {
  override readonly name = 'MissingRightError';
  constructor(
    readonly right: Right,
    cause: unknown,
  ) {
    super(`the caller lacks the right ${right}`, {
      hint: 'allow it; "npm run doctor -- --policy" prints all rights of the doctor',
      cause,
    });
  }
}

/** AWS did not answer a request as expected. */
export class RequestError extends UserError {
  override readonly name = 'RequestError';
}

/** Names of errors of all services: the API references of EC2, STS and IAM, "Common errors", 2026-11-25. */
const DENIED = new Set(['AccessDenied', 'AccessDeniedException', 'UnauthorizedOperation', 'UnauthorizedException']);
const REJECTED = new Set([
  'AuthFailure',
  'ExpiredToken',
  'ExpiredTokenException',
  'IncompleteSignature',
  'InvalidClientTokenId',
  'InvalidSignatureException',
  'RequestExpired',
  'SignatureDoesNotMatch',
  'UnrecognizedClientException',
]);

/**
 * The error of a request as one for the user.
 * @param right that the request needs; undefined for one that everyone may send
 */
export function explainError(error: unknown, right: Right | undefined): UserError {
  if (error instanceof UserError) return error;
  const { name, message, code } = error as Error & { code?: string };
  if (right !== undefined && DENIED.has(name)) return new MissingRightError(right, error);
  if (REJECTED.has(name)) {
    return new RequestError(`AWS rejects the credentials: ${name}: ${message}`, {
      hint: 'sign in again ("aws sso login"), or set AWS_PROFILE or the access keys of this account; a region that is not enabled rejects all credentials',
      cause: error,
    });
  }
  const what = right === undefined ? 'AWS' : `the request for ${right}`;
  return new RequestError(`${what} failed: ${code ?? name}: ${message}`, {
    hint: 'check the network, HTTPS_PROXY and AWS_ENDPOINT_URL, and run the doctor again',
    cause: error,
  });
}
