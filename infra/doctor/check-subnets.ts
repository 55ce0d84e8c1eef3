import type { DefaultRoute, Subnet } from './account';
import { error, ok, warning, type Check, type Finding } from './check';

/** The number that EKS recommends for itself in each subnet (docs.aws.amazon.com/eks/latest/userguide/network-reqs.html), from memory. */
const FEWEST_ADDRESSES = 16;
const INTERNAL_TAG = 'kubernetes.io/role/internal-elb';

/** The subnets of an existing VPC: whether nodes in them can work. The stack gives its own subnets what they need. */
export const subnetsCheck: Check = {
  name: 'subnets',
  run: async ({ account, settings: { cluster, triton } }) => {
    if (cluster.kind === 'existing' || cluster.network.kind === 'create')
      return [ok('none needed: the stack uses no subnets that exist')];
    const { vpcId, privateSubnetIds: ids } = cluster.network;
    const subnets = (await account.subnets(ids)).filter((subnet) => subnet.vpcId === vpcId);
    const routes = await account.defaultRoutes(vpcId, ids);
    const { exposure } = triton;
    const isInternal =
      exposure.kind === 'internal-load-balancer' ||
      (exposure.kind === 'ingress' && exposure.scheme !== 'internet-facing');
    const findings = subnets.flatMap((subnet) => judgeSubnet(subnet, routes.get(subnet.id), isInternal));
    return findings.length > 0 ? findings : [ok(`${ids.join(', ')} have a default route and free addresses`)];
  },
};

/** @param needsTag whether a load balancer looks for its subnets */
export function judgeSubnet(subnet: Subnet, route: DefaultRoute | undefined, needsTag: boolean): Finding[] {
  const { id, freeAddresses, givesPublicAddresses, tags } = subnet;
  const findings: Finding[] = [];
  if (route === undefined) {
    findings.push(
      warning(
        `${id} has no route to 0.0.0.0/0, so its nodes reach no registry and no API of AWS without endpoints in the VPC`,
        'add a NAT gateway and a route to it, or create the endpoints that docs.aws.amazon.com/eks/latest/userguide/private-clusters.html lists',
      ),
    );
  } else if (!route.isActive) {
    findings.push(
      error(
        `the route of ${id} to 0.0.0.0/0 leads to ${route.target}, which does not exist any more`,
        'replace the route',
      ),
    );
  } else if (route.target.startsWith('igw-') && !givesPublicAddresses) {
    findings.push(
      error(
        `the route of ${id} to 0.0.0.0/0 leads to the internet gateway ${route.target}, but nodes get no public address there`,
        'set privateSubnetIds to subnets with a route to a NAT gateway',
      ),
    );
  }
  if (freeAddresses < FEWEST_ADDRESSES) {
    findings.push(
      warning(
        `${id} has ${freeAddresses} free addresses; each pod and node needs one, and EKS recommends ${FEWEST_ADDRESSES} for itself`,
        'set privateSubnetIds to larger subnets',
      ),
    );
  }
  if (needsTag && tags[INTERNAL_TAG] === undefined) {
    findings.push(
      warning(
        `${id} lacks the tag ${INTERNAL_TAG}, by which an internal load balancer finds its subnets`,
        `aws ec2 create-tags --resources ${id} --tags Key=${INTERNAL_TAG},Value=1`,
      ),
    );
  }
  return findings;
}
