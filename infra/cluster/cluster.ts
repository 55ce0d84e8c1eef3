import { createHash } from 'node:crypto';
import { LogGroup } from '@pulumi/aws/cloudwatch/logGroup';
import * as eks from '@pulumi/aws/eks';
import * as iam from '@pulumi/aws/iam';
import * as pulumi from '@pulumi/pulumi';
import {
  accessPolicyArn,
  getPartition,
  policyDocument,
  serviceTrust,
  type PolicyStatement,
} from '../iam/policy-document';
import { AUTO_MODE_NODE_POLICIES, roleWithPolicies, type RoleWithPolicies } from '../iam/role';
import type { AwsIdentity } from '../settings/aws-identity';

export interface ClusterArgs {
  /** Name in tags and descriptions. Default: the name of the component. */
  title?: string;
  /** Name of the cluster. A changed name creates a new cluster before the old one is deleted. */
  clusterName: string;
  region: string;
  /** Version of Kubernetes, "1.36". */
  kubernetesVersion: string;
  /** Private subnets in at least two zones. */
  subnetIds: pulumi.Input<string>[];
  /** The zones of `subnetIds`, in the same order, for GPU pools with zones. Default: unknown. */
  zones?: string[];
  /**
   * Tags of the nodes in addition to those of AWS. Auto Mode gets the permission to set them, also on load balancers.
   * Default: none.
   */
  nodeTags?: Readonly<Record<string, string>>;
  /** IAM roles and users that administer the cluster, in addition to the identity that creates it. Default: none. */
  clusterAdmins?: string[];
  /** IAM roles that may read all objects, Secrets included. Default: none. */
  clusterViewers?: string[];
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
const CLUSTER_POLICIES = [
  'AmazonEKSBlockStoragePolicy',
  'AmazonEKSClusterPolicy',
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

/** An EKS cluster with Auto Mode, and an IAM identity provider for its service accounts. */
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
  /** Role of the nodes of Auto Mode. EKS admits it to the cluster. */
  readonly nodeRoleName: pulumi.Output<string>;
  /** What the nodes of GPU pools need to know of the arguments. */
  readonly place: Readonly<
    Required<Pick<ClusterArgs, 'region' | 'kubernetesVersion' | 'subnetIds' | 'zones' | 'nodeTags'>>
  >;
  /** Resources that must exist before pods are created. */
  readonly ready: pulumi.Resource[];

  constructor(name: string, args: ClusterArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:Cluster', name, {}, options);
    const { region, kubernetesVersion, subnetIds, zones = [], nodeTags = {}, title = name } = args;
    const role = roleWithPolicies(
      `${name}-control-plane`,
      region,
      {
        description: `EKS control plane of ${title}`,
        // Auto Mode tags the resources that it creates, and its policies require session tags.
        trust: serviceTrust('eks.amazonaws.com', 'sts:TagSession'),
        policies: CLUSTER_POLICIES,
      },
      this,
    );
    const nodes = roleWithPolicies(
      `${name}-nodes`,
      region,
      {
        description: `Nodes of ${title}`,
        trust: serviceTrust('ec2.amazonaws.com'),
        policies: AUTO_MODE_NODE_POLICIES,
      },
      this,
    );
    const cluster = this.cluster(name, args, role, nodes);
    // AWS refuses an empty address, without which no pod could assume a role.
    const issuer = cluster.identities.apply(([identity]) => identity?.oidcs[0]?.issuer ?? '');
    const provider = new iam.OpenIdConnectProvider(
      `${name}-pods`,
      { url: issuer, clientIdLists: ['sts.amazonaws.com'] },
      { parent: this },
    );

    this.place = { region, kubernetesVersion, subnetIds, zones, nodeTags };
    this.nodeRoleName = nodes.role.name;
    this.clusterName = cluster.name;
    this.arn = cluster.arn;
    this.oidcProviderArn = provider.arn;
    this.securityGroupId = cluster.vpcConfig.clusterSecurityGroupId;
    this.kubeconfig = getKubeconfig(cluster, region);
    this.providerKubeconfig = getKubeconfig(cluster, region, args.identity);
    this.ready = [
      cluster,
      ...this.admit(`${name}-admin`, 'AmazonEKSClusterAdminPolicy', args.clusterAdmins, region),
      ...this.admit(`${name}-viewer`, 'AmazonEKSAdminViewPolicy', args.clusterViewers, region),
      ...(Object.keys(nodeTags).length > 0 ? allowTags(name, region, role.role) : []),
    ];
    this.registerOutputs({ clusterName: this.clusterName, arn: this.arn, oidcProviderArn: this.oidcProviderArn });
  }

  private cluster(name: string, args: ClusterArgs, control: RoleWithPolicies, nodes: RoleWithPolicies): eks.Cluster {
    const { clusterName, protect, publicAccessCidrs = [] } = args;
    // Before the cluster, because EKS would create a log group that never expires and is not encrypted with our key.
    const logs = new LogGroup(
      `${name}-control-plane`,
      { name: `/aws/eks/${clusterName}/cluster`, retentionInDays: args.logDays, kmsKeyId: args.logKeyArn },
      { parent: this, protect, ...CREATE_FIRST },
    );
    return new eks.Cluster(
      name,
      {
        name: clusterName,
        version: args.kubernetesVersion,
        // At the end of the standard support EKS upgrades the cluster, and charges no more.
        upgradePolicy: { supportType: 'STANDARD' },
        roleArn: control.role.arn,
        accessConfig: { authenticationMode: 'API', bootstrapClusterCreatorAdminPermissions: true },
        // Auto Mode or EKS add-ons provide these components, never self-managed copies.
        bootstrapSelfManagedAddons: false,
        // Pulumi's protection ends at its own state.
        deletionProtection: protect ?? false,
        enabledClusterLogTypes: LOG_TYPES,
        encryptionConfig: { provider: { keyArn: args.secretsKeyArn }, resources: ['secrets'] },
        vpcConfig: {
          subnetIds: args.subnetIds,
          endpointPrivateAccess: true,
          endpointPublicAccess: publicAccessCidrs.length > 0,
          publicAccessCidrs: publicAccessCidrs.length > 0 ? publicAccessCidrs : undefined,
        },
        // Auto Mode is on if all three of these settings are.
        computeConfig: { enabled: true, nodePools: BUILT_IN_NODE_POOLS, nodeRoleArn: nodes.role.arn },
        storageConfig: { blockStorage: { enabled: true } },
        kubernetesNetworkConfig: { elasticLoadBalancing: { enabled: true } },
      },
      {
        parent: this,
        dependsOn: [logs, ...control.attachments, ...nodes.attachments],
        // Only used when a cluster is created. AWS does not return the value, so an imported cluster would be replaced.
        ignoreChanges: ['bootstrapSelfManagedAddons'],
        protect,
        ...CREATE_FIRST,
      },
    );
  }

  /** Grants an EKS access policy in the whole cluster to roles and users. */
  private admit(name: string, policy: string, arns: string[] = [], region: string): pulumi.Resource[] {
    return arns.map((principalArn) => {
      const label = withHash(`${name}-${principalArn.split(/[:/]/).at(-1)}`, principalArn);
      const { clusterName } = this;
      const entry = new eks.AccessEntry(label, { clusterName, principalArn }, { parent: this });
      return new eks.AccessPolicyAssociation(
        label,
        {
          clusterName,
          principalArn: entry.principalArn,
          policyArn: accessPolicyArn(region, policy),
          accessScope: { type: 'cluster' },
        },
        { parent: entry },
      );
    });
  }
}

/** A role and a user, or roles of two accounts, may have the same last name. */
const withHash = (name: string, arn: string): string =>
  `${name}-${createHash('sha256').update(arn).digest('hex').slice(0, 8)}`;

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

/** Conditions that a request or a resource has the tag of this cluster, and that a request has the tags of Kubernetes. */
const own = (what: 'Request' | 'Resource') => ({
  [`aws:${what}Tag/eks:eks-cluster-name`]: '${aws:PrincipalTag/eks:eks-cluster-name}',
});
const named = (...keys: string[]) =>
  Object.fromEntries(keys.map((key) => [`aws:RequestTag/eks:kubernetes-${key}-name`, '*']));

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
  const arns = (service: string, kinds: string[]): string[] =>
    kinds.map((kind) => `arn:${getPartition(region)}:${service}:*:*:${kind}/*`);
  const nodes: PolicyStatement[] = [
    {
      Sid: 'TagNodes',
      Effect: 'Allow',
      Action: ['ec2:CreateFleet', 'ec2:CreateLaunchTemplate', 'ec2:RunInstances'],
      Resource: arns('ec2', TAGGED),
      Condition: { StringEquals: own('Request'), StringLike: named('node-class', 'node-pool') },
    },
    {
      // Nodes add network interfaces when their pods need more addresses than the first one has.
      Sid: 'TagNetworkInterfaces',
      Effect: 'Allow',
      Action: 'ec2:CreateNetworkInterface',
      Resource: arns('ec2', ['network-interface']),
      Condition: { StringEquals: own('Request'), StringLike: named('cni-node') },
    },
  ];
  const parts = [...arns('ec2', ['security-group']), ...arns('elasticloadbalancing', LOAD_BALANCER_PARTS)];
  const loadBalancers: PolicyStatement[] = [
    {
      Sid: 'TagNewLoadBalancers',
      Effect: 'Allow',
      Action: CREATE_LOAD_BALANCER,
      Resource: parts,
      Condition: { StringEquals: own('Request') },
    },
    {
      Sid: 'TagLoadBalancers',
      Effect: 'Allow',
      Action: ['ec2:CreateTags', 'ec2:DeleteTags', 'elasticloadbalancing:AddTags', 'elasticloadbalancing:RemoveTags'],
      Resource: parts,
      // The second one: no resource is given to another cluster.
      Condition: { StringEquals: own('Resource'), StringEqualsIfExists: own('Request') },
    },
  ];
  const ofRole = { parent: role };
  const make = (what: string, statements: PolicyStatement[]): iam.RolePolicy =>
    new iam.RolePolicy(`${name}-${what}-tags`, { role: role.id, policy: policyDocument(statements) }, ofRole);
  return [make('node', nodes), make('load-balancer', loadBalancers)];
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
