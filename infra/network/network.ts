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
  cidr: string;
  /** Availability zones, 2 to 6. Adding or removing a zone does not change the subnets of the others. */
  zones: string[];
  /** `one` for all zones, or one per zone, so that the failure of a zone does not cut off the others. */
  natGateways: 'one' | 'per-zone';
  /** Days to keep flow logs. */
  logDays: number;
  /** KMS key of the flow logs. Its policy must allow CloudWatch to use it. */
  logKeyArn: pulumi.Input<string>;
  /** Pulumi refuses to delete the flow logs. Default: false. */
  protect?: boolean;
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
    const vpc = this.vpc(name, args);
    const { publicSubnets, publicRoutes, publicTable } = this.publicSubnets(name, vpc, args);
    const gateways = this.natGateways(name, publicSubnets, publicRoutes, args);
    const { privateSubnets, privateRoutes, privateTables } = this.privateSubnets(name, vpc, gateways, args);
    const s3 = this.s3Endpoint(name, vpc, [publicTable, ...privateTables], args);
    this.flowLogs(name, vpc, args);

    this.vpcId = vpc.id;
    this.privateSubnetIds = privateSubnets.map(({ id }) => id);
    this.zones = args.zones;
    this.publicSubnetIds = publicSubnets.map(({ id }) => id);
    this.routes = [...publicRoutes, ...privateRoutes, s3];
    this.registerOutputs({
      vpcId: this.vpcId,
      privateSubnetIds: this.privateSubnetIds,
      publicSubnetIds: this.publicSubnetIds,
    });
  }

  private vpc(name: string, { cidr, title = name }: NetworkArgs): ec2.Vpc {
    const vpc = new ec2.Vpc(
      name,
      { cidrBlock: cidr, enableDnsHostnames: true, enableDnsSupport: true, tags: { Name: title } },
      { parent: this },
    );
    // Resources that are put into the default group by mistake can reach nothing.
    new ec2.DefaultSecurityGroup(
      `${name}-default`,
      { vpcId: vpc.id, ingress: [], egress: [], tags: { Name: `${title}-default-unused` } },
      { parent: vpc },
    );
    return vpc;
  }

  private publicSubnets(name: string, vpc: ec2.Vpc, { cidr, zones, title = name }: NetworkArgs) {
    const gateway = new ec2.InternetGateway(name, { vpcId: vpc.id, tags: { Name: title } }, { parent: vpc });
    const table = new ec2.RouteTable(
      `${name}-public`,
      { vpcId: vpc.id, tags: { Name: `${title}-public` } },
      { parent: vpc },
    );
    const route = new ec2.Route(
      `${name}-public`,
      { routeTableId: table.id, destinationCidrBlock: '0.0.0.0/0', gatewayId: gateway.id },
      { parent: table },
    );
    const ranges = subnetRanges(cidr, zones).public;
    const placed = zones.map((zone, index) => {
      const subnet = new ec2.Subnet(
        `${name}-public-${zone}`,
        {
          vpcId: vpc.id,
          availabilityZone: zone,
          cidrBlock: ranges[index] ?? '',
          mapPublicIpOnLaunch: false,
          tags: { Name: `${title}-public-${zone}`, 'kubernetes.io/role/elb': '1' },
        },
        { parent: vpc },
      );
      const association = new ec2.RouteTableAssociation(
        `${name}-public-${zone}`,
        { subnetId: subnet.id, routeTableId: table.id },
        { parent: subnet },
      );
      return { subnet, association };
    });
    return {
      publicSubnets: placed.map(({ subnet }) => subnet),
      publicRoutes: [route, ...placed.map(({ association }) => association)],
      publicTable: table,
    };
  }

  /** Creates one gateway, or one for each zone in the order of the zones. */
  private natGateways(
    name: string,
    subnets: readonly ec2.Subnet[],
    routes: pulumi.Resource[],
    { zones, natGateways, title = name }: NetworkArgs,
  ): ec2.NatGateway[] {
    const count = natGateways === 'one' ? 1 : zones.length;
    return subnets.slice(0, count).map((subnet, index) => {
      const label = `${name}-nat-${zones[index]}`;
      const tags = { Name: `${title}-nat-${zones[index]}` };
      const address = new ec2.Eip(label, { domain: 'vpc', tags }, { parent: subnet });
      return new ec2.NatGateway(
        label,
        { subnetId: subnet.id, allocationId: address.id, tags },
        { parent: subnet, dependsOn: routes },
      );
    });
  }

  private privateSubnets(
    name: string,
    vpc: ec2.Vpc,
    gateways: readonly ec2.NatGateway[],
    { cidr, zones, title = name }: NetworkArgs,
  ) {
    const ranges = subnetRanges(cidr, zones).private;
    const placed = zones.map((zone, index) => {
      const label = `${name}-private-${zone}`;
      const tags = { Name: `${title}-private-${zone}` };
      const subnet = new ec2.Subnet(
        label,
        {
          vpcId: vpc.id,
          availabilityZone: zone,
          cidrBlock: ranges[index] ?? '',
          mapPublicIpOnLaunch: false,
          tags: { ...tags, 'kubernetes.io/role/internal-elb': '1' },
        },
        { parent: vpc },
      );
      const table = new ec2.RouteTable(label, { vpcId: vpc.id, tags }, { parent: vpc });
      const gateway = (gateways[index] ?? gateways[0]) as ec2.NatGateway;
      const route = new ec2.Route(
        label,
        { routeTableId: table.id, destinationCidrBlock: '0.0.0.0/0', natGatewayId: gateway.id },
        { parent: table },
      );
      const association = new ec2.RouteTableAssociation(
        label,
        { subnetId: subnet.id, routeTableId: table.id },
        { parent: subnet },
      );
      return { subnet, table, routes: [route, association] };
    });
    return {
      privateSubnets: placed.map(({ subnet }) => subnet),
      privateTables: placed.map(({ table }) => table),
      privateRoutes: placed.flatMap(({ routes }) => routes),
    };
  }

  private s3Endpoint(
    name: string,
    vpc: ec2.Vpc,
    tables: readonly ec2.RouteTable[],
    { region, title = name }: NetworkArgs,
  ): ec2.VpcEndpoint {
    return new ec2.VpcEndpoint(
      `${name}-s3`,
      {
        vpcId: vpc.id,
        serviceName: `com.amazonaws.${region}.s3`,
        vpcEndpointType: 'Gateway',
        routeTableIds: tables.map(({ id }) => id),
        tags: { Name: `${title}-s3` },
      },
      { parent: vpc },
    );
  }

  private flowLogs(name: string, vpc: ec2.Vpc, { title = name, ...args }: NetworkArgs): void {
    const { logDays, logKeyArn, protect } = args;
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
