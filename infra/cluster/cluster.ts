import { createHash } from 'node:crypto';
import { LogGroup } from '@pulumi/aws/cloudwatch/logGroup';
import * as eks from '@pulumi/aws/eks';
import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import type { SupportType } from './eks-versions';
import { createAccessEntry } from './cluster-access';
import { ClusterAddons } from './cluster-addons';
import { getPartition, policyDocument, serviceTrust, type PolicyStatement } from '../iam/policy-document';
import { AUTO_MODE_NODE_POLICIES, roleWithPolicies, type RoleWithPolicies } from '../iam/role';
import type { AwsIdentity } from '../settings/aws-identity';

export interface ClusterArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  /** Name of the cluster. A changed name creates a new cluster before the old one is deleted. */
  clusterName: string;
  region: string;
  /** Version of Kubernetes, "1.35". */
  version: string;
  /** What EKS does when the standard support of the version ends: upgrade, or charge more. Default: standard. */
  support?: SupportType;
  /** EKS Auto Mode: AWS runs the controllers for nodes, network, storage and load balancers. Default: true. */
  autoMode?: boolean;
  /** Private subnets in at least two zones. */
  subnetIds: pulumi.Input<string>[];
  /** Nodes without GPUs for system pods. Ignored with Auto Mode, which provides its own. */
  systemNodes: { instanceTypes: string[]; count: number };
  /**
   * Tags of the nodes in addition to those of AWS. Auto Mode gets the permission to set them, also on load balancers.
   * Default: none.
   */
  nodeTags?: Readonly<Record<string, string>>;
  /** Whether managed node groups will be added; they need add-ons that nodes of Auto Mode do not. Default: false. */
  hasNodeGroups?: boolean;
  /** IAM roles and users that administer the cluster, in addition to the identity that creates it. Default: none. */
  admins?: string[];
  /** IAM roles that may read all objects, Secrets included. Default: none. */
  viewers?: string[];
  /** Addresses that may reach the API over the internet. Default: none, so that only the VPC reaches it. */
  publicAccessCidrs?: string[];
  /** Days to keep control-plane logs. */
  logDays: number;
  /** KMS key for the logs. Its policy must allow CloudWatch to use it. */
  logKeyArn: pulumi.Input<string>;
  /** KMS key for Kubernetes secrets. */
  secretsKeyArn: pulumi.Input<string>;
  /** Identity of Pulumi's AWS provider, which creates and so administers the cluster. Default: that of the shell. */
  identity?: AwsIdentity;
  /** Pulumi refuses to delete or replace the cluster and its logs. Default: false. */
  protect?: boolean;
}

/** Auto Mode uses the role of the cluster, which therefore needs more permissions than EKS alone does. */
const CLUSTER_POLICIES = ['AmazonEKSClusterPolicy'];
const AUTO_MODE_POLICIES = [
  'AmazonEKSBlockStoragePolicy',
  'AmazonEKSComputePolicy',
  'AmazonEKSLoadBalancingPolicy',
  'AmazonEKSNetworkingPolicy',
];

/** Built-in pools of CPU nodes of Auto Mode. general-purpose has no taint, so pods such as CoreDNS can run there. */
const BUILT_IN_NODE_POOLS = ['general-purpose', 'system'];

/**
 * A changed name creates the new resource first. The AWS provider would delete the old resource first, whenever the
 * program sets a name, and Pulumi would then delete everything that depends on the old cluster before the new one exists.
 */
const CREATE_FIRST = { deleteBeforeReplace: false };

const LOG_TYPES = ['api', 'audit', 'authenticator', 'controllerManager', 'scheduler'];

/** An EKS cluster, with an IAM identity provider for its service accounts. */
export class Cluster extends pulumi.ComponentResource {
  readonly clusterName: pulumi.Output<string>;
  readonly arn: pulumi.Output<string>;
  /** Authenticates with "aws eks get-token", so it contains no secret, but it reveals the address of the API. */
  readonly kubeconfig: pulumi.Output<string>;
  /** The same for Pulumi's Kubernetes provider: it signs in with the identity of the AWS provider. */
  readonly providerKubeconfig: pulumi.Output<string>;
  /** IAM identity provider for the service accounts of the cluster. */
  readonly oidcProviderArn: pulumi.Output<string>;
  /** Security group that EKS created for the control plane and all nodes. */
  readonly securityGroupId: pulumi.Output<string>;
  readonly version: string;
  readonly autoMode: boolean;
  /** Resources that must exist before pods are created. */
  readonly ready: pulumi.Resource[];

  constructor(name: string, args: ClusterArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:Cluster', name, {}, options);
    const autoMode = args.autoMode ?? true;
    const logs = this.logGroup(name, args);
    const role = this.clusterRole(name, args, autoMode);
    const nodeRole = autoMode ? this.autoModeNodeRole(name, args) : undefined;
    const cluster = this.cluster(name, args, {
      role: role.role,
      nodeRole: nodeRole?.role,
      dependsOn: [logs, ...role.attachments, ...(nodeRole?.attachments ?? [])],
    });
    const hasTags = autoMode && Object.keys(args.nodeTags ?? {}).length > 0;
    const tagging = hasTags ? allowTags(name, args.region, role.role) : [];
    const provider = this.oidcProvider(name, cluster);
    const admissions = [...this.adminEntries(name, args, cluster), ...this.viewerEntries(name, args, cluster)];
    const addons =
      autoMode && args.hasNodeGroups !== true
        ? undefined
        : new ClusterAddons(
            `${name}-addons`,
            {
              title: `${args.title ?? name}-addons`,
              clusterName: cluster.name,
              region: args.region,
              version: args.version,
              subnetIds: args.subnetIds,
              systemNodes: autoMode ? undefined : args.systemNodes,
              nodeTags: args.nodeTags,
            },
            { parent: this },
          );

    this.version = args.version;
    this.autoMode = autoMode;
    this.clusterName = cluster.name;
    this.arn = cluster.arn;
    this.oidcProviderArn = provider.arn;
    this.securityGroupId = cluster.vpcConfig.clusterSecurityGroupId;
    this.kubeconfig = getKubeconfig(cluster, args.region);
    this.providerKubeconfig = getKubeconfig(cluster, args.region, args.identity);
    this.ready = [cluster, ...admissions, ...tagging, ...(addons?.ready ?? [])];
    this.registerOutputs({ clusterName: this.clusterName, arn: this.arn, oidcProviderArn: this.oidcProviderArn });
  }

  /**
   * Created before the cluster, because EKS would create a log group that never expires and is not encrypted with our
   * key.
   */
  private logGroup(name: string, args: ClusterArgs): LogGroup {
    const { clusterName, logDays, logKeyArn, protect } = args;
    return new LogGroup(
      `${name}-control-plane`,
      { name: `/aws/eks/${clusterName}/cluster`, retentionInDays: logDays, kmsKeyId: logKeyArn },
      { parent: this, protect, ...CREATE_FIRST },
    );
  }

  private clusterRole(name: string, { region, title = name }: ClusterArgs, autoMode: boolean): RoleWithPolicies {
    // Auto Mode tags the resources that it creates, and its policies require session tags.
    const trust = autoMode ? serviceTrust('eks.amazonaws.com', 'sts:TagSession') : serviceTrust('eks.amazonaws.com');
    const policies = autoMode ? [...CLUSTER_POLICIES, ...AUTO_MODE_POLICIES] : CLUSTER_POLICIES;
    return roleWithPolicies(
      `${name}-control-plane`,
      region,
      { description: `EKS control plane of ${title}`, trust, policies },
      this,
    );
  }

  private autoModeNodeRole(name: string, { region, title = name }: ClusterArgs): RoleWithPolicies {
    const description = `System nodes of ${title}`;
    const trust = serviceTrust('ec2.amazonaws.com');
    return roleWithPolicies(
      `${name}-system-nodes`,
      region,
      { description, trust, policies: AUTO_MODE_NODE_POLICIES },
      this,
    );
  }

  private cluster(
    name: string,
    args: ClusterArgs,
    { role, nodeRole, dependsOn }: { role: iam.Role; nodeRole: iam.Role | undefined; dependsOn: pulumi.Resource[] },
  ): eks.Cluster {
    const publicAccessCidrs = args.publicAccessCidrs ?? [];
    return new eks.Cluster(
      name,
      {
        name: args.clusterName,
        version: args.version,
        upgradePolicy: { supportType: (args.support ?? 'standard').toUpperCase() },
        roleArn: role.arn,
        accessConfig: { authenticationMode: 'API', bootstrapClusterCreatorAdminPermissions: true },
        // Auto Mode or EKS add-ons provide these components, never self-managed copies.
        bootstrapSelfManagedAddons: false,
        // Pulumi's protection ends at its own state.
        deletionProtection: args.protect ?? false,
        enabledClusterLogTypes: LOG_TYPES,
        encryptionConfig: { provider: { keyArn: args.secretsKeyArn }, resources: ['secrets'] },
        vpcConfig: {
          subnetIds: args.subnetIds,
          endpointPrivateAccess: true,
          endpointPublicAccess: publicAccessCidrs.length > 0,
          publicAccessCidrs: publicAccessCidrs.length > 0 ? publicAccessCidrs : undefined,
        },
        // EKS requires the same value for these three settings.
        computeConfig:
          nodeRole === undefined
            ? { enabled: false }
            : { enabled: true, nodePools: BUILT_IN_NODE_POOLS, nodeRoleArn: nodeRole.arn },
        storageConfig: { blockStorage: { enabled: nodeRole !== undefined } },
        kubernetesNetworkConfig: { elasticLoadBalancing: { enabled: nodeRole !== undefined } },
      },
      {
        parent: this,
        dependsOn,
        // Only used when a cluster is created. AWS does not return the value, so an imported cluster would be replaced.
        ignoreChanges: ['bootstrapSelfManagedAddons'],
        protect: args.protect,
        ...CREATE_FIRST,
      },
    );
  }

  private oidcProvider(name: string, cluster: eks.Cluster): iam.OpenIdConnectProvider {
    const issuer = pulumi.all([cluster.name, cluster.identities]).apply((values) => getIssuer(...values));
    return new iam.OpenIdConnectProvider(
      `${name}-pods`,
      { url: issuer, clientIdLists: ['sts.amazonaws.com'] },
      { parent: this },
    );
  }

  private adminEntries(
    name: string,
    { region, admins = [] }: ClusterArgs,
    cluster: eks.Cluster,
  ): eks.AccessPolicyAssociation[] {
    return admins.map((principalArn) =>
      createAccessEntry(
        withHash(`${name}-admin-${principalArn.split(/[:/]/).at(-1)}`, principalArn),
        { clusterName: cluster.name, principalArn, region, policy: 'AmazonEKSClusterAdminPolicy' },
        this,
      ),
    );
  }

  private viewerEntries(
    name: string,
    { region, viewers = [] }: ClusterArgs,
    cluster: eks.Cluster,
  ): eks.AccessPolicyAssociation[] {
    return viewers.map((principalArn) =>
      createAccessEntry(
        withHash(`${name}-viewer-${principalArn.split('/').at(-1)}`, principalArn),
        { clusterName: cluster.name, principalArn, region, policy: 'AmazonEKSAdminViewPolicy' },
        this,
      ),
    );
  }
}

/** A role and a user, or roles of two accounts, may have the same last name. */
const withHash = (name: string, arn: string): string =>
  `${name}-${createHash('sha256').update(arn).digest('hex').slice(0, 8)}`;

/**
 * Issuer of the tokens of the cluster's pods.
 * @throws Error if there is none, because no pod could assume a role then
 */
export function getIssuer(clusterName: string, identities: { oidcs: { issuer: string }[] }[]): string {
  const issuer = identities[0]?.oidcs[0]?.issuer;
  if (issuer === undefined) throw new Error(`AWS names no OpenID Connect issuer for the cluster ${clusterName}`);
  return issuer;
}

/** Resources of a node that Auto Mode creates and can tag. */
const TAGGED = ['fleet', 'instance', 'launch-template', 'network-interface', 'spot-instances-request', 'volume'];

/** Requests with which Auto Mode creates the parts of a load balancer with their tags. */
const CREATE_LOAD_BALANCER = [
  'ec2:CreateSecurityGroup',
  'elasticloadbalancing:CreateListener',
  'elasticloadbalancing:CreateLoadBalancer',
  'elasticloadbalancing:CreateRule',
  'elasticloadbalancing:CreateTargetGroup',
];

/** https://docs.aws.amazon.com/service-authorization/latest/reference/list_awselasticloadbalancingv2.html (2026-11-27) */
const LOAD_BALANCER_PARTS = ['listener', 'listener-rule', 'loadbalancer', 'targetgroup'];

const OWN_CLUSTER = '${aws:PrincipalTag/eks:eks-cluster-name}';

/**
 * AWS's policies let Auto Mode set only AWS's own tags, so a NodeClass or load balancer with other tags would not be
 * created. The conditions of TagNodes and TagNewLoadBalancers are those of the EKS user guide, "Custom AWS tags for EKS
 * Auto resources": https://docs.aws.amazon.com/eks/latest/userguide/auto-cluster-iam-role.html (2026-11-27). Its example
 * does not let tags of existing resources change, nor does version 4 of AmazonEKSLoadBalancingPolicy, which allows AddTags
 * only while a resource is created:
 * https://github.com/zoph-io/MAMIP/blob/0af4f36e3bde/policies/AmazonEKSLoadBalancingPolicy (2026-11-27). TagLoadBalancers
 * allows it, because load balancers of stacks get tags that they did not have.
 */
function allowTags(name: string, region: string, role: iam.Role): pulumi.Resource[] {
  const arn = (service: string, resource: string): string => `arn:${getPartition(region)}:${service}:*:*:${resource}`;
  const nodes: PolicyStatement = {
    Sid: 'TagNodes',
    Effect: 'Allow',
    Action: ['ec2:CreateFleet', 'ec2:CreateLaunchTemplate', 'ec2:RunInstances'],
    Resource: TAGGED.map((kind) => arn('ec2', `${kind}/*`)),
    Condition: {
      StringEquals: { 'aws:RequestTag/eks:eks-cluster-name': OWN_CLUSTER },
      StringLike: {
        'aws:RequestTag/eks:kubernetes-node-class-name': '*',
        'aws:RequestTag/eks:kubernetes-node-pool-name': '*',
      },
    },
  };
  // Nodes add network interfaces when their pods need more addresses than the first one has.
  const interfaces: PolicyStatement = {
    Sid: 'TagNetworkInterfaces',
    Effect: 'Allow',
    Action: 'ec2:CreateNetworkInterface',
    Resource: arn('ec2', 'network-interface/*'),
    Condition: {
      StringEquals: { 'aws:RequestTag/eks:eks-cluster-name': OWN_CLUSTER },
      StringLike: { 'aws:RequestTag/eks:kubernetes-cni-node-name': '*' },
    },
  };
  const parts = [
    arn('ec2', 'security-group/*'),
    ...LOAD_BALANCER_PARTS.map((kind) => arn('elasticloadbalancing', `${kind}/*`)),
  ];
  const loadBalancers: PolicyStatement[] = [
    {
      Sid: 'TagNewLoadBalancers',
      Effect: 'Allow',
      Action: CREATE_LOAD_BALANCER,
      Resource: parts,
      Condition: { StringEquals: { 'aws:RequestTag/eks:eks-cluster-name': OWN_CLUSTER } },
    },
    {
      Sid: 'TagLoadBalancers',
      Effect: 'Allow',
      Action: ['ec2:CreateTags', 'ec2:DeleteTags', 'elasticloadbalancing:AddTags', 'elasticloadbalancing:RemoveTags'],
      Resource: parts,
      Condition: {
        StringEquals: { 'aws:ResourceTag/eks:eks-cluster-name': OWN_CLUSTER },
        // No resource is given to another cluster.
        StringEqualsIfExists: { 'aws:RequestTag/eks:eks-cluster-name': OWN_CLUSTER },
      },
    },
  ];
  const ofRole = { parent: role };
  const make = (what: string, statements: PolicyStatement[]): iam.RolePolicy =>
    new iam.RolePolicy(`${name}-${what}-tags`, { role: role.id, policy: policyDocument(statements) }, ofRole);
  return [make('node', [nodes, interfaces]), make('load-balancer', loadBalancers)];
}

/**
 * The text must stay the same while the cluster does: a changed kubeconfig would replace all objects in the cluster.
 */
function getKubeconfig(
  cluster: eks.Cluster,
  region: string,
  { profile, roleArn }: AwsIdentity = {},
): pulumi.Output<string> {
  const token = ['eks', 'get-token', '--cluster-name', cluster.name, '--region', region, '--output', 'json'];
  return pulumi.jsonStringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': cluster.name,
    clusters: [
      {
        name: cluster.name,
        cluster: {
          server: cluster.endpoint,
          'certificate-authority-data': cluster.certificateAuthority.data,
        },
      },
    ],
    contexts: [{ name: cluster.name, context: { cluster: cluster.name, user: cluster.name } }],
    users: [
      {
        name: cluster.name,
        user: {
          exec: {
            apiVersion: 'client.authentication.k8s.io/v1beta1',
            command: 'aws',
            args: [
              ...token,
              ...(profile === undefined ? [] : ['--profile', profile]),
              ...(roleArn === undefined ? [] : ['--role-arn', roleArn]),
            ],
            interactiveMode: 'Never',
          },
        },
      },
    ],
  });
}
