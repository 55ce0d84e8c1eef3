import { setMaxListeners } from 'node:events';
import {
  DescribeAddressesCommand,
  DescribeInstanceTypeOfferingsCommand,
  DescribeRouteTablesCommand,
  DescribeSubnetsCommand,
  DescribeVpcsCommand,
  EC2Client,
  type _InstanceType,
  type Filter,
  type Route,
} from '@aws-sdk/client-ec2';
import { DescribeClusterCommand, DescribeClusterVersionsCommand, EKSClient } from '@aws-sdk/client-eks';
import {
  GetAWSDefaultServiceQuotaCommand,
  GetServiceQuotaCommand,
  ServiceQuotasClient,
} from '@aws-sdk/client-service-quotas';
import { AssumeRoleCommand, GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { UserError } from '../../src/core/errors';
import { openAgent } from '../../src/s3/agent';
import { CredentialSource } from '../../src/s3/credentials';
import { readSettings } from '../../src/s3/endpoint';
import type { Credentials } from '../../src/s3/store';
import { getHomeRegion } from '../iam/policy-document';
import type { AwsIdentity } from '../settings/aws-identity';
import { askServer } from './web';

export interface Quota {
  service: 'ec2' | 'vpc';
  code: string;
  name: string;
}

/** What the doctor reads, in the region of the stack. Every method may throw a UserError. */
export type Aws = Omit<Awaited<ReturnType<typeof openAws>>, 'close'>;

/** Limits for one request, in ms. Shorter than the time for one check, so that a lost request is sent again. */
const TIMEOUTS = { connectionTimeout: 4000, requestTimeout: 8000, throwOnRequestTimeout: true };

/**
 * How clients of the AWS SDK send requests with the identity of Pulumi's AWS provider.
 * @throws UserError if a setting of the AWS tools is wrong
 */
async function openAwsSession(region: string, { profile, roleArn }: AwsIdentity) {
  // The warning about the version of Node is for those who use the SDK in their own code.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  // The credential chain and the SDK read the variable.
  if (profile !== undefined) process.env['AWS_PROFILE'] = profile;
  const { caFile } = await readSettings({ region }, process.env);
  const agent = openAgent({ secure: true, connections: 16, idleTimeoutMs: 10_000, caFile, env: process.env });
  const requestHandler = new NodeHttpHandler({ ...TIMEOUTS, httpsAgent: agent as never });
  const source = new CredentialSource(undefined, () => Promise.resolve({ region, agent }));
  const ofShell = async (): Promise<Credentials> => source.get();
  // A region that is not enabled rejects all requests, so that some are sent to one that every account has.
  const homeConfig = { region: getHomeRegion(region), requestHandler, credentials: ofShell };
  if (roleArn !== undefined) {
    homeConfig.credentials = once(async () => {
      const request = new AssumeRoleCommand({ RoleArn: roleArn, RoleSessionName: 'triton-serving-doctor' });
      const sts = new STSClient({ ...homeConfig, credentials: ofShell });
      const answer = await ask(`sts:AssumeRole on ${roleArn} of aws:assumeRoles`, () => sts.send(request));
      const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = answer.Credentials ?? {};
      return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken };
    });
  }
  return { config: { ...homeConfig, region }, homeConfig, close: () => agent.destroy() };
}

const filter = (Name: string, ...Values: readonly string[]): { Filters: Filter[] } => ({
  Filters: [{ Name, Values: [...Values] }],
});

/**
 * Reads an AWS account with the identity of Pulumi's AWS provider. docs/iam/doctor.json has the rights of all requests. No
 * answer has the 1,000 items with which AWS would begin a second page.
 * @param region of the stack
 * @throws UserError if a setting of the AWS tools is wrong
 */
export async function openAws(region: string, identity: AwsIdentity) {
  const { config, homeConfig, close } = await openAwsSession(region, identity);
  const closing = new AbortController();
  setMaxListeners(0, closing.signal); // Every request adds one.
  const options = { abortSignal: closing.signal };
  const sts = new STSClient(homeConfig);
  const ec2 = new EC2Client(config);
  const eks = new EKSClient(config);
  const quotas = new ServiceQuotasClient(config);

  return {
    identity: () => ask('sts:GetCallerIdentity', () => sts.send(new GetCallerIdentityCommand({}), options)),
    subnets: once(async (...ids: readonly string[]) => {
      // Unlike SubnetIds, a filter is no error if a subnet does not exist.
      const request = new DescribeSubnetsCommand(filter('subnet-id', ...ids));
      return (await ask('ec2:DescribeSubnets', () => ec2.send(request, options))).Subnets ?? [];
    }),
    /** Finds the route of a subnet to 0.0.0.0/0. A subnet without a route table of its own has that of the VPC. */
    defaultRoutes: async (vpcId: string) => {
      const request = new DescribeRouteTablesCommand(filter('vpc-id', vpcId));
      const { RouteTables = [] } = await ask('ec2:DescribeRouteTables', () => ec2.send(request, options));
      return (subnetId: string | undefined): Route | undefined => {
        const table =
          RouteTables.find(({ Associations = [] }) => Associations.some(({ SubnetId }) => SubnetId === subnetId)) ??
          RouteTables.find(({ Associations = [] }) => Associations.some(({ Main }) => Main));
        return table?.Routes?.find(({ DestinationCidrBlock }) => DestinationCidrBlock === '0.0.0.0/0');
      };
    },
    zonesOffering: async (types: readonly string[]) => {
      const request = new DescribeInstanceTypeOfferingsCommand({
        LocationType: 'availability-zone',
        ...filter('instance-type', ...types),
      });
      const answer = await ask('ec2:DescribeInstanceTypeOfferings', () => ec2.send(request, options));
      const offers = answer.InstanceTypeOfferings ?? [];
      return (type: string): string[] =>
        offers
          .filter(({ InstanceType }) => InstanceType === (type as _InstanceType))
          .map(({ Location = '' }) => Location)
          .sort();
    },
    quota: async ({ service, code }: Quota): Promise<number> => {
      const request = { ServiceCode: service, QuotaCode: code };
      const applied = await ask('servicequotas:GetServiceQuota', () =>
        unlessMissing('NoSuchResourceException', () => quotas.send(new GetServiceQuotaCommand(request), options)),
      );
      // Service Quotas has no applied value for some quotas that were never changed.
      const { Quota: quota } =
        applied ??
        (await ask('servicequotas:GetAWSDefaultServiceQuota', () =>
          quotas.send(new GetAWSDefaultServiceQuotaCommand(request), options),
        ));
      return quota?.Value ?? 0;
    },
    vpcCount: async () => {
      const answer = await ask('ec2:DescribeVpcs', () => ec2.send(new DescribeVpcsCommand({}), options));
      return answer.Vpcs?.length ?? 0;
    },
    addressCount: async () => {
      const answer = await ask('ec2:DescribeAddresses', () => ec2.send(new DescribeAddressesCommand({}), options));
      return answer.Addresses?.length ?? 0;
    },
    eksVersions: async () => {
      const request = new DescribeClusterVersionsCommand({ includeAll: true });
      const answer = await ask('eks:DescribeClusterVersions', () => eks.send(request, options));
      return answer.clusterVersions ?? [];
    },
    hasCluster: once(async (name: string) => {
      const request = new DescribeClusterCommand({ name });
      const send = () => unlessMissing('ResourceNotFoundException', () => eks.send(request, options));
      return (await ask('eks:DescribeCluster', send)) !== undefined;
    }),
    /** Sends a request to a server that is no API of AWS, with the proxy and the certificates of the requests to AWS. */
    askServer: (url: string) => askServer(config.requestHandler, url),
    /** Ends all requests. */
    close: () => {
      closing.abort();
      for (const client of [sts, ec2, eks, quotas]) client.destroy();
      close();
    },
  };
}

/** Calls `read` once for each key, because several checks need the same answer. */
function once<A extends readonly string[], T>(read: (...keys: A) => Promise<T>): (...keys: A) => Promise<T> {
  const answers = new Map<string, Promise<T>>();
  return (...keys) => {
    const key = keys.join('\n');
    const answer = answers.get(key) ?? read(...keys);
    answers.set(key, answer);
    return answer;
  };
}

/** @param name of the error with which a service reports that a resource does not exist */
async function unlessMissing<T>(name: string, send: () => Promise<T>): Promise<T | undefined> {
  try {
    return await send();
  } catch (error) {
    if (error instanceof Error && error.name === name) return undefined;
    throw error;
  }
}

/** Names of errors of all services: the API references of EC2, STS and IAM, "Common errors", 2026-11-25. */
const DENIED = ['AccessDenied', 'AccessDeniedException', 'UnauthorizedOperation', 'UnauthorizedException'];

/**
 * @param right that the request needs
 * @throws UserError
 */
async function ask<T>(right: string, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (cause) {
    const { name, message, code } = cause as Error & { code?: string };
    if (DENIED.includes(name)) {
      throw new UserError(`the caller lacks the right ${right}`, {
        hint: 'allow it (docs/iam/doctor.json has all rights of the doctor), or correct the name if it belongs to another account',
        cause,
      });
    }
    if (cause instanceof UserError) throw cause;
    throw new UserError(`the request for ${right} failed: ${code ?? name}: ${message}`, {
      hint: 'sign in again ("aws sso login") or set AWS_PROFILE if AWS rejects the credentials; otherwise check the network, HTTPS_PROXY and AWS_ENDPOINT_URL',
      cause,
    });
  }
}
