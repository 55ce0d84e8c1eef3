import { setMaxListeners } from 'node:events';
import { CloudWatchLogsClient, DescribeLogGroupsCommand } from '@aws-sdk/client-cloudwatch-logs';
import {
  DescribeAddressesCommand,
  DescribeAvailabilityZonesCommand,
  DescribeRegionsCommand,
  DescribeSubnetsCommand,
  EC2Client,
  paginateDescribeInstanceTypeOfferings,
  paginateDescribeVpcs,
  type _InstanceType,
} from '@aws-sdk/client-ec2';
import {
  DescribeClusterCommand,
  EKSClient,
  paginateDescribeClusterVersions,
  paginateListAccessEntries,
  type VersionStatus,
} from '@aws-sdk/client-eks';
import { GetOpenIDConnectProviderCommand, GetRoleCommand, IAMClient } from '@aws-sdk/client-iam';
import {
  GetAWSDefaultServiceQuotaCommand,
  GetServiceQuotaCommand,
  ServiceQuotasClient,
} from '@aws-sdk/client-service-quotas';
import { AssumeRoleCommand, GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { openAgent } from '../../src/s3/agent';
import { CredentialsError, CredentialSource } from '../../src/s3/credentials';
import { readSettings } from '../../src/s3/settings';
import { S3Store, type Credentials } from '../../src/s3/store';
import { getPartition } from '../iam/policy-document';
import type { AwsIdentity } from '../settings/aws-identity';
import { explainError, type AwsAccount, type Identity, type OfferedVersion, type Quota } from './account';
import type { Right } from './rights';

/** Limits for one request, in ms. Shorter than the time for one check, so that a lost request is sent again. */
const TIMEOUTS = { connectionTimeout: 4000, requestTimeout: 8000, throwOnRequestTimeout: true };
const CONNECTIONS = 16;
const IDLE_TIMEOUT_MS = 10_000;
const S3_ATTEMPTS = 2;

/** For each partition, a region that every account of it has. */
const HOME_REGIONS: Readonly<Record<string, string>> = {
  'aws-cn': 'cn-north-1',
  'aws-us-gov': 'us-gov-west-1',
  aws: 'us-east-1',
};

const SUPPORT: Readonly<Record<VersionStatus, OfferedVersion['support']>> = {
  STANDARD_SUPPORT: 'standard',
  EXTENDED_SUPPORT: 'extended',
  UNSUPPORTED: 'none',
};

export interface OpenAccount extends AwsAccount {
  /** Ends all requests. */
  close(): void;
}

/**
 * Reads an AWS account with the identity of Pulumi's AWS provider.
 * @param region of the stack
 * @throws UserError if a setting of the AWS tools is wrong
 */
export async function openAwsAccount(region: string, { profile, roleArn }: AwsIdentity): Promise<OpenAccount> {
  // The warning about the version of Node is for those who use the SDK in their own code.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  // The credential chain and the SDK read the variable.
  if (profile !== undefined) process.env['AWS_PROFILE'] = profile;
  const partition = getPartition(region);
  const home = HOME_REGIONS[partition];
  const { caFile } = await readSettings({ region }, process.env);
  const agent = await openAgent({
    secure: true,
    connections: CONNECTIONS,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
    caFile,
    env: process.env,
  });
  const requestHandler = new NodeHttpHandler({ ...TIMEOUTS, httpsAgent: agent as never });
  const source = new CredentialSource(undefined, () => Promise.resolve({ region, agent, ofAws: true }));
  const ofShell = async (): Promise<Credentials> => source.get();
  const credentials = once(
    roleArn === undefined
      ? ofShell
      : () => assumeRole(new STSClient({ region: home, requestHandler, credentials: ofShell }), roleArn),
  );
  const config = { region, requestHandler, credentials };
  // An account that has not enabled the region of the stack is known only to other regions.
  const atHome = { ...config, region: home };
  const closing = new AbortController();
  setMaxListeners(0, closing.signal); // Every request adds one.
  const options = { abortSignal: closing.signal };
  const sts = new STSClient(atHome);
  const ec2 = new EC2Client(config);
  const ec2AtHome = new EC2Client(atHome);
  const eks = new EKSClient(config);
  const iam = new IAMClient(atHome);
  const logs = new CloudWatchLogsClient(config);
  const quotas = new ServiceQuotasClient(config);

  return {
    partition,
    identity: once(() =>
      ask(undefined, async (): Promise<Identity> => {
        const { Account = '', Arn = '' } = await sts.send(new GetCallerIdentityCommand({}), options);
        return { account: Account, arn: Arn };
      }),
    ),
    regionStatus: () =>
      ask('ec2:DescribeRegions', async () => {
        const names = { Name: 'region-name', Values: [region] };
        const request = new DescribeRegionsCommand({ AllRegions: true, Filters: [names] });
        const { Regions = [] } = await ec2AtHome.send(request, options);
        return Regions.find(({ RegionName }) => RegionName === region)?.OptInStatus;
      }),
    zones: () =>
      ask('ec2:DescribeAvailabilityZones', async () => {
        const request = new DescribeAvailabilityZonesCommand({ Filters: [{ Name: 'state', Values: ['available'] }] });
        const { AvailabilityZones = [] } = await ec2.send(request, options);
        return AvailabilityZones.map(({ ZoneName = '', ZoneId = '' }) => ({ name: ZoneName, id: ZoneId }));
      }),
    subnets: (ids) =>
      ask('ec2:DescribeSubnets', async () => {
        // Unlike SubnetIds, a filter is no error if a subnet does not exist.
        const request = new DescribeSubnetsCommand({ Filters: [{ Name: 'subnet-id', Values: [...ids] }] });
        const { Subnets = [] } = await ec2.send(request, options);
        return Subnets.map(({ SubnetId = '', VpcId = '', AvailabilityZone = '', AvailabilityZoneId = '' }) => ({
          id: SubnetId,
          vpcId: VpcId,
          zone: { name: AvailabilityZone, id: AvailabilityZoneId },
        }));
      }),
    zonesOffering: (types) =>
      ask('ec2:DescribeInstanceTypeOfferings', async () => {
        const found = new Map<string, Set<string>>(types.map((type) => [type, new Set()]));
        const request = {
          LocationType: 'availability-zone' as const,
          Filters: [{ Name: 'instance-type', Values: [...types] as _InstanceType[] }],
        };
        const pages = paginateDescribeInstanceTypeOfferings({ client: ec2 }, request, options);
        for await (const { InstanceTypeOfferings = [] } of pages) {
          for (const { InstanceType = '', Location = '' } of InstanceTypeOfferings) {
            found.get(InstanceType)?.add(Location);
          }
        }
        return found;
      }),
    quota: ({ service, code }: Quota) => {
      const request = { ServiceCode: service, QuotaCode: code };
      return ask('servicequotas:GetServiceQuota', async () => {
        try {
          return (await quotas.send(new GetServiceQuotaCommand(request), options)).Quota?.Value ?? 0;
        } catch (error) {
          // Service Quotas has no applied value for some quotas that were never changed.
          if (!isNamed(error, 'NoSuchResourceException')) throw error;
          return ask('servicequotas:GetAWSDefaultServiceQuota', async () => {
            return (await quotas.send(new GetAWSDefaultServiceQuotaCommand(request), options)).Quota?.Value ?? 0;
          });
        }
      });
    },
    vpcCount: () =>
      ask('ec2:DescribeVpcs', async () => {
        let count = 0;
        for await (const { Vpcs = [] } of paginateDescribeVpcs({ client: ec2 }, {}, options)) count += Vpcs.length;
        return count;
      }),
    addressCount: () =>
      ask('ec2:DescribeAddresses', async () => {
        return (await ec2.send(new DescribeAddressesCommand({}), options)).Addresses?.length ?? 0;
      }),
    eksVersions: () =>
      ask('eks:DescribeClusterVersions', async () => {
        const found: OfferedVersion[] = [];
        const pages = paginateDescribeClusterVersions({ client: eks }, { includeAll: true }, options);
        for await (const { clusterVersions = [] } of pages) {
          for (const { clusterVersion = '', versionStatus, endOfStandardSupportDate } of clusterVersions) {
            const support = versionStatus === undefined ? 'none' : SUPPORT[versionStatus];
            found.push({ version: clusterVersion, support, standardSupportUntil: endOfStandardSupportDate });
          }
        }
        return found;
      }),
    cluster: once((name: string) =>
      ask('eks:DescribeCluster', () =>
        unlessMissing('ResourceNotFoundException', async () => {
          const { cluster } = await eks.send(new DescribeClusterCommand({ name }), options);
          const mode = cluster?.accessConfig?.authenticationMode;
          return { tags: cluster?.tags ?? {}, hasAccessEntries: mode !== undefined && mode !== 'CONFIG_MAP' };
        }),
      ),
    ),
    accessEntries: (clusterName) =>
      ask('eks:ListAccessEntries', async () => {
        const found: string[] = [];
        const pages = paginateListAccessEntries({ client: eks }, { clusterName }, options);
        for await (const { accessEntries = [] } of pages) found.push(...accessEntries);
        return found;
      }),
    hasLogGroup: (name) =>
      ask('logs:DescribeLogGroups', async () => {
        const { logGroups = [] } = await logs.send(new DescribeLogGroupsCommand({ logGroupNamePrefix: name }), options);
        return logGroups.some(({ logGroupName }) => logGroupName === name);
      }),
    oidcProvider: (arn) =>
      ask('iam:GetOpenIDConnectProvider', () =>
        unlessMissing('NoSuchEntityException', async () => {
          const request = new GetOpenIDConnectProviderCommand({ OpenIDConnectProviderArn: arn });
          const { ClientIDList = [], Tags = [] } = await iam.send(request, options);
          return {
            audiences: ClientIDList,
            tags: Object.fromEntries(Tags.map(({ Key = '', Value = '' }) => [Key, Value])),
          };
        }),
      ),
    roleArn: (name) =>
      ask('iam:GetRole', () =>
        unlessMissing('NoSuchEntityException', async () => {
          return (await iam.send(new GetRoleCommand({ RoleName: name }), options)).Role?.Arn;
        }),
      ),
    listBucket: async (bucket, bucketRegion, prefix) => {
      const given = await credentials();
      const store = new S3Store({ bucket, region: bucketRegion, credentials: given, attempts: S3_ATTEMPTS });
      closing.signal.addEventListener('abort', () => store.close());
      await store.list(prefix);
    },
    close: () => {
      closing.abort();
      for (const client of [sts, ec2, ec2AtHome, eks, iam, logs, quotas]) client.destroy();
      agent.destroy();
    },
  };
}

/** Sends requests that need a right. @throws UserError */
async function ask<T>(right: Right | undefined, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    throw explainError(error, right);
  }
}

const isNamed = (error: unknown, name: string): boolean => error instanceof Error && error.name === name;

/** @param name of the error with which a service reports that a resource does not exist */
async function unlessMissing<T>(name: string, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isNamed(error, name)) return undefined;
    throw error;
  }
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

/** @throws CredentialsError */
async function assumeRole(sts: STSClient, roleArn: string): Promise<Credentials> {
  try {
    const request = new AssumeRoleCommand({ RoleArn: roleArn, RoleSessionName: 'triton-serving-doctor' });
    const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = (await sts.send(request)).Credentials ?? {};
    return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken };
  } catch (error) {
    const { name, message } = error as Error;
    throw new CredentialsError(`cannot assume the role ${roleArn} of aws:assumeRoles: ${name}: ${message}`, {
      hint: 'check the trust policy of the role, and aws:assumeRoles in the stack file',
      cause: error,
    });
  } finally {
    sts.destroy();
  }
}
