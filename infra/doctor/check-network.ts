import { isIPv4 } from 'node:net';
import type { Route, Subnet } from '@aws-sdk/client-ec2';
import { containsRange } from '../network/cidr';
import { createsNetwork } from '../settings/rules';
import type { Quota } from './aws';
import { error, ok, warning, type Check, type Context, type Finding } from './doctor';

export const subnetsCheck: Check = {
  name: 'subnets',
  run: async ({ aws, settings: { privateSubnetIds: ids, triton } }) => {
    if (ids.length === 0) return [];
    const subnets = await aws.subnets(...ids);
    // EKS itself refuses subnets of different VPCs, and subnets in one zone, when it creates the cluster.
    const missing = ids.filter((id) => subnets.every(({ SubnetId }) => SubnetId !== id));
    if (missing.length > 0) {
      const found = `there is no subnet ${missing.join(', ')} in this account and region`;
      return [error(found, 'correct privateSubnetIds')];
    }
    const { exposure } = triton;
    const isInternal =
      exposure.kind === 'internal-load-balancer' ||
      (exposure.kind === 'ingress' && exposure.scheme !== 'internet-facing');
    const getRoute = await aws.defaultRoutes(subnets[0]?.VpcId ?? '');
    const findings = subnets.flatMap((subnet) => judgeSubnet(subnet, getRoute(subnet.SubnetId), isInternal));
    return findings.length > 0 ? findings : [ok(`${ids.join(', ')} have a default route and free addresses`)];
  },
};

/** EKS recommends it for itself in each subnet (docs.aws.amazon.com/eks/latest/userguide/network-reqs.html), from memory. */
const FEWEST_ADDRESSES = 16;
const INTERNAL_TAG = 'kubernetes.io/role/internal-elb';

/** Whether nodes in a subnet can work. @param needsTag whether a load balancer looks for its subnets */
function judgeSubnet(subnet: Subnet, route: Route | undefined, needsTag: boolean): Finding[] {
  const { SubnetId: id = '', AvailableIpAddressCount: addresses = 0, MapPublicIpOnLaunch, Tags = [] } = subnet;
  const findings: Finding[] = [];
  if (route === undefined) {
    findings.push(
      warning(
        `${id} has no route to 0.0.0.0/0, so its nodes reach no registry and no API of AWS without endpoints in the VPC`,
        'add a NAT gateway and a route to it, or create the endpoints that docs.aws.amazon.com/eks/latest/userguide/private-clusters.html lists',
      ),
    );
  } else if (route.State === 'blackhole') {
    const found = `the route of ${id} to 0.0.0.0/0 leads to a gateway that does not exist any more`;
    findings.push(error(found, 'replace the route'));
  } else if (route.GatewayId?.startsWith('igw-') === true && MapPublicIpOnLaunch !== true) {
    findings.push(
      error(
        `the route of ${id} to 0.0.0.0/0 leads to the internet gateway ${route.GatewayId}, but nodes get no public address there`,
        'set privateSubnetIds to subnets with a route to a NAT gateway',
      ),
    );
  }
  if (addresses < FEWEST_ADDRESSES) {
    findings.push(
      warning(
        `${id} has ${addresses} free addresses; each pod and node needs one, and EKS recommends ${FEWEST_ADDRESSES} for itself`,
        'set privateSubnetIds to larger subnets',
      ),
    );
  }
  if (needsTag && Tags.every(({ Key }) => Key !== INTERNAL_TAG)) {
    findings.push(
      warning(
        `${id} lacks the tag ${INTERNAL_TAG}, by which an internal load balancer finds its subnets`,
        `aws ec2 create-tags --resources ${id} --tags Key=${INTERNAL_TAG},Value=1`,
      ),
    );
  }
  return findings;
}

/** https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html (2026-11-25); the default of both is 5. */
const VPCS: Quota = { service: 'vpc', code: 'L-F678F1CE', name: 'VPCs per Region' };
const ADDRESSES: Quota = { service: 'ec2', code: 'L-0263D0A3', name: 'EC2-VPC Elastic IPs' };

/** Room in the account for the VPC of the stack, and for the addresses of its NAT gateways, before the first update. */
export const networkQuotasCheck: Check = {
  name: 'network quotas',
  run: async ({ aws, settings }) => {
    const { availabilityZones, clusterName, natGateways, region } = settings;
    if (!createsNetwork(settings) || (await aws.hasCluster(clusterName))) return [];
    const needs = [
      { quota: VPCS, count: aws.vpcCount, needed: 1 },
      { quota: ADDRESSES, count: aws.addressCount, needed: natGateways === 'one' ? 1 : availabilityZones.length },
    ];
    return Promise.all(
      needs.map(async ({ quota, count, needed }) => {
        const [used, limit] = await Promise.all([count(), aws.quota(quota)]);
        const found = `${quota.name} (${quota.code}): ${used} of ${limit} in use, and the stack needs ${needed}`;
        return used + needed <= limit ? ok(found) : error(found, requestIncrease(quota, used + needed, region));
      }),
    );
  },
};

export const requestIncrease = ({ service, code }: Quota, value: number, region: string): string =>
  `aws service-quotas request-service-quota-increase --service-code ${service} --quota-code ${code} --desired-value ${value} --region ${region}`;

/** A server of AWS that answers with the address from which a request arrives. */
const CHECK_IP = 'https://checkip.amazonaws.com';
const VARIABLE = 'TRITON_CHECKIP_URL';

/** Whether the Kubernetes API of the cluster admits the address of this machine, which "pulumi up" needs. */
export const ownAddressCheck: Check = {
  name: 'own address',
  run: async ({ aws, settings }) => {
    const { existingCluster, publicAccessCidrs: ranges, stack } = settings;
    // The preview warns if the list is empty.
    if (existingCluster !== undefined || ranges.length === 0) return [];
    const given = process.env[VARIABLE] ?? '';
    const url = given === '' ? CHECK_IP : given;
    const { status, text } = await aws.askServer(url);
    const address = text.trim();
    if (status !== 200 || !isIPv4(address)) {
      const fix = `set ${VARIABLE} to a server that answers with the address of its client, as ${CHECK_IP} does`;
      return [warning(`not checked: ${url} answered ${status} without an IPv4 address`, fix)];
    }
    const range = ranges.find((outer) => containsRange(outer, `${address}/32`));
    if (range !== undefined) return [ok(`${address} is in ${range} of publicAccessCidrs`)];
    return [
      warning(
        `this machine has the address ${address}, which is not in publicAccessCidrs (${ranges.join(', ')}), so "pulumi up" reaches the Kubernetes API only from the VPC`,
        `unless this machine is in the VPC: pulumi config set --stack ${stack} --path 'publicAccessCidrs[${ranges.length}]' ${address}/32`,
      ),
    ];
  },
};

/** Names of the zones in which the nodes of the stack may run; undefined if an existing cluster decides. */
export async function getNodeZones({ aws, settings }: Context): Promise<string[] | undefined> {
  if (settings.existingCluster !== undefined) return undefined;
  if (createsNetwork(settings)) return settings.availabilityZones;
  const subnets = await aws.subnets(...settings.privateSubnetIds);
  return [...new Set(subnets.map(({ AvailabilityZone = '' }) => AvailabilityZone))];
}
