import { setMaxListeners } from 'node:events';
import { ACMClient, DescribeCertificateCommand } from '@aws-sdk/client-acm';
import { CloudWatchLogsClient, DescribeLogGroupsCommand } from '@aws-sdk/client-cloudwatch-logs';
import {
  DescribeAddressesCommand,
  DescribeAvailabilityZonesCommand,
  DescribeRegionsCommand,
  DescribeSubnetsCommand,
  EC2Client,
  paginateDescribeInstanceTypeOfferings,
  paginateDescribeRouteTables,
  paginateDescribeVpcs,
  type _InstanceType,
  type Route,
} from '@aws-sdk/client-ec2';
import {
  DescribeClusterCommand,
  EKSClient,
  paginateDescribeClusterVersions,
  paginateListAccessEntries,
  type VersionStatus,
} from '@aws-sdk/client-eks';
import {
  DescribeTargetHealthCommand,
  ElasticLoadBalancingV2Client,
  paginateDescribeLoadBalancers,
  paginateDescribeTargetGroups,
} from '@aws-sdk/client-elastic-load-balancing-v2';
import { GetOpenIDConnectProviderCommand, GetRoleCommand, IAMClient } from '@aws-sdk/client-iam';
import { DescribeKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import {
  GetAWSDefaultServiceQuotaCommand,
  GetServiceQuotaCommand,
  ServiceQuotasClient,
} from '@aws-sdk/client-service-quotas';
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { S3Error, S3Store, type Credentials } from '../../src/s3/store';
import { once, openAwsSession } from '../aws-session';
import { getPartition } from '../iam/policy-document';
import type { AwsIdentity } from '../settings/aws-identity';
import {
  explainError,
  MissingRightError,
  type AwsAccount,
  type BalancerTarget,
  type DefaultRoute,
  type Identity,
  type OfferedVersion,
  type Quota,
  type Subnet,
} from './account';
import type { Right } from './rights';

const S3_ATTEMPTS = 2;

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
export async function openAwsAccount(region: string, awsIdentity: AwsIdentity): Promise<OpenAccount> {
  const { config, homeConfig, credentials, shellCredentials, close } = await openAwsSession(
    region,
    awsIdentity,
    'doctor',
  );
  const closing = new AbortController();
  setMaxListeners(0, closing.signal); // Every request adds one.
  const options = { abortSignal: closing.signal };
  const acm = new ACMClient(config);
  const sts = new STSClient(homeConfig);
  const ec2 = new EC2Client(config);
  const ec2AtHome = new EC2Client(homeConfig);
  const eks = new EKSClient(config);
  const elb = new ElasticLoadBalancingV2Client(config);
  const iam = new IAMClient(homeConfig);
  const logs = new CloudWatchLogsClient(config);
  const quotas = new ServiceQuotasClient(config);

  const subnets = once((...ids: readonly string[]) =>
    ask('ec2:DescribeSubnets', async (): Promise<Subnet[]> => {
      // Unlike SubnetIds, a filter is no error if a subnet does not exist.
      const request = new DescribeSubnetsCommand({ Filters: [{ Name: 'subnet-id', Values: [...ids] }] });
      const { Subnets = [] } = await ec2.send(request, options);
      return Subnets.map((subnet) => ({
        id: subnet.SubnetId ?? '',
        vpcId: subnet.VpcId ?? '',
        zone: { name: subnet.AvailabilityZone ?? '', id: subnet.AvailabilityZoneId ?? '' },
        freeAddresses: subnet.AvailableIpAddressCount ?? 0,
        givesPublicAddresses: subnet.MapPublicIpOnLaunch ?? false,
        tags: toRecord(subnet.Tags),
      }));
    }),
  );

  const openStore = (bucket: string, bucketRegion: string, given: Credentials): S3Store => {
    const store = new S3Store({ bucket, region: bucketRegion, credentials: given, attempts: S3_ATTEMPTS });
    closing.signal.addEventListener('abort', () => store.close());
    return store;
  };

  return {
    partition: getPartition(region),
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
    subnets: (ids) => subnets(...ids),
    defaultRoutes: (vpcId, subnetIds) =>
      ask('ec2:DescribeRouteTables', async () => {
        const request = { Filters: [{ Name: 'vpc-id', Values: [vpcId] }] };
        let main: DefaultRoute | undefined;
        const own = new Map<string, DefaultRoute | undefined>();
        for await (const { RouteTables = [] } of paginateDescribeRouteTables({ client: ec2 }, request, options)) {
          for (const { Associations = [], Routes = [] } of RouteTables) {
            const route = findDefaultRoute(Routes);
            for (const { Main, SubnetId } of Associations) {
              if (Main === true) main = route;
              if (SubnetId !== undefined) own.set(SubnetId, route);
            }
          }
        }
        return new Map(
          subnetIds.flatMap((id) => {
            const route = own.has(id) ? own.get(id) : main;
            return route === undefined ? [] : [[id, route] as const];
          }),
        );
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
    accessEntries: once((clusterName: string) =>
      ask('eks:ListAccessEntries', async () => {
        const found: string[] = [];
        const pages = paginateListAccessEntries({ client: eks }, { clusterName }, options);
        for await (const { accessEntries = [] } of pages) found.push(...accessEntries);
        return found;
      }),
    ),
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
          return { audiences: ClientIDList, tags: toRecord(Tags) };
        }),
      ),
    roleArn: (name) =>
      ask('iam:GetRole', () =>
        unlessMissing('NoSuchEntityException', async () => {
          return (await iam.send(new GetRoleCommand({ RoleName: name }), options)).Role?.Arn;
        }),
      ),
    certificate: (CertificateArn) =>
      ask('acm:DescribeCertificate', () =>
        unlessMissing('ResourceNotFoundException', async () => {
          const { Certificate } = await acm.send(new DescribeCertificateCommand({ CertificateArn }), options);
          const { Status = 'unknown', DomainName = '', SubjectAlternativeNames = [], NotAfter } = Certificate ?? {};
          return {
            status: Status,
            names: [...new Set([DomainName, ...SubjectAlternativeNames])],
            until: NotAfter,
            isRenewed: Certificate?.Type !== 'IMPORTED',
            renewal: Certificate?.RenewalSummary?.RenewalStatus,
          };
        }),
      ),
    balancerTargets: async (host) => {
      const arn = await ask('elasticloadbalancing:DescribeLoadBalancers', async () => {
        for await (const { LoadBalancers = [] } of paginateDescribeLoadBalancers({ client: elb }, {}, options)) {
          // A host name of AWS is in lower case or not, depending on the place.
          const found = LoadBalancers.find(({ DNSName = '' }) => DNSName.toLowerCase() === host.toLowerCase());
          if (found !== undefined) return found.LoadBalancerArn;
        }
        return undefined;
      });
      if (arn === undefined) return undefined;
      const groups = await ask('elasticloadbalancing:DescribeTargetGroups', async () => {
        const found: string[] = [];
        const pages = paginateDescribeTargetGroups({ client: elb }, { LoadBalancerArn: arn }, options);
        for await (const { TargetGroups = [] } of pages) {
          found.push(...TargetGroups.flatMap(({ TargetGroupArn }) => TargetGroupArn ?? []));
        }
        return found;
      });
      const targets = await ask('elasticloadbalancing:DescribeTargetHealth', () =>
        Promise.all(
          groups.map(async (TargetGroupArn): Promise<BalancerTarget[]> => {
            const request = new DescribeTargetHealthCommand({ TargetGroupArn });
            const { TargetHealthDescriptions = [] } = await elb.send(request, options);
            return TargetHealthDescriptions.map(({ Target, TargetHealth }) => ({
              address: `${Target?.Id}:${Target?.Port}`,
              state: TargetHealth?.State ?? 'unknown',
              reason: TargetHealth?.Reason,
            }));
          }),
        ),
      );
      return targets.flat();
    },
    listBucket: async (bucket, bucketRegion, prefix, identity) => {
      const store = openStore(bucket, bucketRegion, await (identity === 'shell' ? shellCredentials() : credentials()));
      await store.list(prefix);
    },
    isVersioned: (bucket, bucketRegion) =>
      ask('s3:GetBucketVersioning', async () => {
        const store = openStore(bucket, bucketRegion, await shellCredentials());
        return store.isVersioned();
      }),
    keyState: (KeyId, keyRegion) =>
      ask('kms:DescribeKey', () =>
        unlessMissing('NotFoundException', async () => {
          const kms = new KMSClient({ ...config, region: keyRegion, credentials: shellCredentials });
          try {
            return (await kms.send(new DescribeKeyCommand({ KeyId }), options)).KeyMetadata?.KeyState;
          } finally {
            kms.destroy();
          }
        }),
      ),
    close: () => {
      closing.abort();
      for (const client of [acm, sts, ec2, ec2AtHome, eks, elb, iam, logs, quotas]) client.destroy();
      close();
    },
  };
}

const toRecord = (tags: readonly { Key?: string; Value?: string }[] = []): Record<string, string> =>
  Object.fromEntries(tags.map(({ Key = '', Value = '' }) => [Key, Value]));

function findDefaultRoute(routes: readonly Route[]): DefaultRoute | undefined {
  const route = routes.find(({ DestinationCidrBlock }) => DestinationCidrBlock === '0.0.0.0/0');
  if (route === undefined) return undefined;
  const { NatGatewayId, GatewayId, TransitGatewayId, NetworkInterfaceId, VpcPeeringConnectionId } = route;
  const target = NatGatewayId ?? GatewayId ?? TransitGatewayId ?? NetworkInterfaceId ?? VpcPeeringConnectionId;
  return { target: target ?? 'another network', isActive: route.State !== 'blackhole' };
}

/** Sends requests that need a right. @throws UserError */
async function ask<T>(right: Right | undefined, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (right !== undefined && error instanceof S3Error && error.code === 'AccessDenied') {
      throw new MissingRightError(right, error);
    }
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
