import { LogGroup } from '@pulumi/aws/cloudwatch/logGroup';
import * as ec2 from '@pulumi/aws/ec2';
import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import { subnetRanges } from './cidr';
import { policyDocument, serviceTrust } from '../iam/policy-document';

export interface NetworkArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  region: string;
  /** Address range of the VPC, /16 to /20: "10.0.0.0/16". A change replaces the network. */
  vpcCidr: string;
  /** Availability zones, 2 to 6. Adding or removing a zone does not change the subnets of the others. */
  availabilityZones: string[];
  /** `one` for all zones, or one per zone, so that the failure of a zone does not cut off the others. */
  natGateways: 'one' | 'per-zone';
  /** Days to keep flow logs. */
  logDays: number;
  /** KMS key of the flow logs. Its policy must allow CloudWatch to use it. */
  logKeyArn: pulumi.Input<string>;
  /** Pulumi refuses to delete the flow logs. Default: false. */
  protect?: boolean;
}

interface Place {
  vpc: ec2.Vpc;
  name: string;
  title: string;
}

/**
 * A VPC with a private and a public subnet in each zone. Nodes are in the private subnets. They reach the internet
 * through NAT gateways and S3 through a gateway endpoint, because NAT gateways charge for every byte of a model.
 */
export class Network extends pulumi.ComponentResource {
  readonly vpcId: pulumi.Output<string>;
  readonly privateSubnetIds: pulumi.Output<string>[];
  /** The zones of the subnets, in the same order. */
  readonly zones: string[];
  /** Subnets for load balancers that face the internet. */
  readonly publicSubnetIds: pulumi.Output<string>[];
  /** Routes that nodes need. They must exist before the nodes and be deleted after them. */
  readonly routes: pulumi.Resource[];

  constructor(name: string, args: NetworkArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:Network', name, {}, options);
    const { vpcCidr, availabilityZones: zones, title = name } = args;
    const ranges = subnetRanges(vpcCidr, zones);
    const vpc = new ec2.Vpc(
      name,
      { cidrBlock: vpcCidr, enableDnsHostnames: true, enableDnsSupport: true, tags: { Name: title } },
      { parent: this },
    );
    const place = { vpc, name, title };
    // Resources that are put into the default group by mistake can reach nothing.
    new ec2.DefaultSecurityGroup(
      `${name}-default`,
      { vpcId: vpc.id, ingress: [], egress: [], tags: { Name: `${title}-default-unused` } },
      { parent: vpc },
    );
    const internet = new ec2.InternetGateway(name, { vpcId: vpc.id, tags: { Name: title } }, { parent: vpc });
    const way = this.routeTable('public', { gatewayId: internet.id }, place);
    const publics = zones.map((zone, index) =>
      this.subnet(`public-${zone}`, zone, ranges.public[index], 'elb', way.table, place),
    );
    const publicRoutes = [way.route, ...publics.map(({ association }) => association)];
    const gateways = publics
      .slice(0, args.natGateways === 'one' ? 1 : zones.length)
      .map(({ subnet }, index) => this.natGateway(`nat-${zones[index]}`, subnet, publicRoutes, place));
    const privates = zones.map((zone, index) => {
      const gateway = (gateways[index] ?? gateways[0]) as ec2.NatGateway;
      const { table, route } = this.routeTable(`private-${zone}`, { natGatewayId: gateway.id }, place);
      const made = this.subnet(`private-${zone}`, zone, ranges.private[index], 'internal-elb', table, place);
      return { ...made, table, route };
    });
    const s3 = new ec2.VpcEndpoint(
      `${name}-s3`,
      {
        vpcId: vpc.id,
        serviceName: `com.amazonaws.${args.region}.s3`,
        vpcEndpointType: 'Gateway',
        routeTableIds: [way, ...privates].map(({ table }) => table.id),
        tags: { Name: `${title}-s3` },
      },
      { parent: vpc },
    );
    this.flowLogs(args, place);

    this.vpcId = vpc.id;
    this.privateSubnetIds = privates.map(({ subnet }) => subnet.id);
    this.zones = zones;
    this.publicSubnetIds = publics.map(({ subnet }) => subnet.id);
    this.routes = [...publicRoutes, ...privates.flatMap(({ route, association }) => [route, association]), s3];
    this.registerOutputs({
      vpcId: this.vpcId,
      privateSubnetIds: this.privateSubnetIds,
      publicSubnetIds: this.publicSubnetIds,
    });
  }

  private routeTable(part: string, to: Partial<ec2.RouteArgs>, { vpc, name, title }: Place) {
    const label = `${name}-${part}`;
    const tags = { Name: `${title}-${part}` };
    const table = new ec2.RouteTable(label, { vpcId: vpc.id, tags }, { parent: vpc });
    const route = new ec2.Route(
      label,
      { routeTableId: table.id, destinationCidrBlock: '0.0.0.0/0', ...to },
      { parent: table },
    );
    return { table, route };
  }

  /** @param role the load balancers for which Kubernetes may use the subnet */
  private subnet(
    part: string,
    zone: string,
    cidrBlock = '',
    role: 'elb' | 'internal-elb',
    table: ec2.RouteTable,
    { vpc, name, title }: Place,
  ) {
    const label = `${name}-${part}`;
    const subnet = new ec2.Subnet(
      label,
      {
        vpcId: vpc.id,
        availabilityZone: zone,
        cidrBlock,
        mapPublicIpOnLaunch: false,
        tags: { Name: `${title}-${part}`, [`kubernetes.io/role/${role}`]: '1' },
      },
      { parent: vpc },
    );
    const ids = { subnetId: subnet.id, routeTableId: table.id };
    return { subnet, association: new ec2.RouteTableAssociation(label, ids, { parent: subnet }) };
  }

  private natGateway(
    part: string,
    subnet: ec2.Subnet,
    dependsOn: pulumi.Resource[],
    { name, title }: Place,
  ): ec2.NatGateway {
    const label = `${name}-${part}`;
    const tags = { Name: `${title}-${part}` };
    // The address of the former gateway stays with it until that is deleted.
    const address = new ec2.Eip(label, { domain: 'vpc', tags }, { parent: subnet, replaceWith: [subnet] });
    const ids = { subnetId: subnet.id, allocationId: address.id };
    return new ec2.NatGateway(label, { ...ids, tags }, { parent: subnet, dependsOn });
  }

  private flowLogs({ logDays, logKeyArn, protect }: NetworkArgs, { vpc, name, title }: Place): void {
    const label = `${name}-flow-logs`;
    const group = new LogGroup(label, { retentionInDays: logDays, kmsKeyId: logKeyArn }, { parent: vpc, protect });
    const role = new iam.Role(
      label,
      {
        description: `Writes the flow logs of ${title}`,
        assumeRolePolicy: serviceTrust('vpc-flow-logs.amazonaws.com'),
      },
      { parent: vpc },
    );
    const policy = new iam.RolePolicy(
      label,
      {
        role: role.id,
        policy: policyDocument([
          {
            Sid: 'WriteFlowLogs',
            Effect: 'Allow',
            Action: ['logs:CreateLogStream', 'logs:PutLogEvents', 'logs:DescribeLogStreams'],
            Resource: [group.arn, pulumi.interpolate`${group.arn}:*`],
          },
        ]),
      },
      { parent: role },
    );
    new ec2.FlowLog(
      label,
      {
        vpcId: vpc.id,
        trafficType: 'ALL',
        logDestination: group.arn,
        iamRoleArn: role.arn,
        tags: { Name: `${title}-flow-logs` },
      },
      { parent: vpc, dependsOn: [policy] },
    );
  }
}
