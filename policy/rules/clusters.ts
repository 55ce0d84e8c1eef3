import type { Rule } from '../rule';
import type { Value } from '../value';
import { CLUSTER, NODE_GROUP } from './types';

const EVERYWHERE = ['0.0.0.0/0', '::/0'];

/** Log types that are needed to find out which identity did what. */
const LOGS = ['api', 'audit', 'authenticator'] as const;

/** The address ranges of security group rules, by the type of the resource that declares them. */
const OPEN_RANGES: Readonly<Record<string, (props: Value) => Value[]>> = {
  'aws:ec2/securityGroup:SecurityGroup': (props) =>
    props
      .at('ingress')
      .items()
      .flatMap((rule) => [...rule.at('cidrBlocks').items(), ...rule.at('ipv6CidrBlocks').items()]),
  'aws:ec2/securityGroupRule:SecurityGroupRule': (props) =>
    props.at('type').is('ingress') ? [...props.at('cidrBlocks').items(), ...props.at('ipv6CidrBlocks').items()] : [],
  'aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule': (props) => [props.at('cidrIpv4'), props.at('cidrIpv6')],
};

export const clusterRules: readonly Rule[] = [
  {
    name: 'cluster-endpoint-not-open',
    description:
      'The Kubernetes API of every cluster is reachable from its VPC, and over the internet only from listed addresses.',
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const config = resource.props.at('vpcConfig');
        const privately = config.at('endpointPrivateAccess');
        if (!privately.mayBe(true)) {
          report({ resource, at: privately, fix: 'set it to true, so that nodes reach the API without NAT' });
        }
        if (config.at('endpointPublicAccess').mayBe(false)) return;
        const ranges = config.at('publicAccessCidrs');
        const fix = 'list the addresses that need access, or set endpointPublicAccess to false';
        if (ranges.isMissing()) report({ resource, at: ranges, fix });
        for (const at of ranges.items()) if (at.is(...EVERYWHERE)) report({ resource, at, fix });
      },
    },
  },
  {
    name: 'cluster-secrets-encrypted',
    description: 'Every cluster encrypts Kubernetes secrets with a customer-managed KMS key.',
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const config = resource.props.at('encryptionConfig');
        if (!config.at('resources').mayInclude('secrets')) {
          report({ resource, at: config, fix: 'set resources: ["secrets"] and provider.keyArn' });
        }
      },
    },
  },
  {
    name: 'cluster-logs',
    description: 'The control plane of every cluster logs API requests, audit events and authentications.',
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const at = resource.props.at('enabledClusterLogTypes');
        const missing = LOGS.filter((log) => !at.mayInclude(log));
        if (missing.length > 0) report({ resource, at, fix: `add ${missing.join(', ')}` });
      },
    },
  },
  {
    name: 'cluster-access-entries',
    description:
      'Every cluster grants access through access entries, whose changes AWS logs, and not through a ConfigMap.',
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const mode = resource.props.at('accessConfig.authenticationMode');
        if (!mode.mayBe('API')) report({ resource, at: mode, fix: 'set it to API' });
      },
    },
  },
  {
    name: 'cluster-admins-are-roles',
    description: 'Only IAM roles administer a cluster, because the keys of IAM users do not expire.',
    each: {
      types: ['aws:eks/accessPolicyAssociation:AccessPolicyAssociation'],
      check: (resource, report) => {
        const at = resource.props.at('principalArn');
        const isAdmin = /\/AmazonEKS(Cluster)?AdminPolicy$/.test(resource.props.at('policyArn').text() ?? '');
        if (!isAdmin || !/:(user\/.*|root)$/.test(at.text() ?? '')) return;
        report({ resource, at, fix: 'name a role that the people or programs assume' });
      },
    },
  },
  {
    name: 'cluster-admin-not-bound',
    description: 'No binding grants all permissions in a cluster (cluster-admin).',
    each: {
      types: ['ClusterRoleBinding', 'RoleBinding'].map((kind) => `kubernetes:rbac.authorization.k8s.io/v1:${kind}`),
      check: (resource, report) => {
        const at = resource.props.at('roleRef.name');
        if (at.is('cluster-admin')) report({ resource, at, fix: 'bind a role with the permissions that are needed' });
      },
    },
  },
  {
    name: 'cluster-version-pinned',
    description: 'Every cluster sets its Kubernetes version, which otherwise depends on the day of its creation.',
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const at = resource.props.at('version');
        if (at.isMissing()) report({ resource, at, fix: 'name a version that AWS supports' });
      },
    },
  },
  {
    name: 'node-group-no-ssh',
    description: 'No managed node group allows SSH from every address.',
    each: {
      types: [NODE_GROUP],
      check: (resource, report) => {
        const access = resource.props.at('remoteAccess');
        if (access.isThere() && access.at('sourceSecurityGroupIds').isMissing()) {
          report({ resource, at: access, fix: 'remove it and use Session Manager' });
        }
      },
    },
  },
  {
    name: 'node-group-gpu-tainted',
    description: 'Every managed node group with GPUs has a taint, so that pods without GPUs do not occupy its nodes.',
    each: {
      types: [NODE_GROUP],
      check: (resource, report) => {
        const ami = resource.props.at('amiType').text() ?? '';
        const taints = resource.props.at('taints');
        if (/NVIDIA|GPU/.test(ami) && !taints.isUnknown() && taints.items().length === 0) {
          report({ resource, at: taints, fix: 'add { key: "nvidia.com/gpu", effect: "NO_SCHEDULE" }' });
        }
      },
    },
  },
  {
    name: 'security-group-not-open',
    description: 'No security group allows incoming traffic from every address.',
    each: {
      types: Object.keys(OPEN_RANGES),
      check: (resource, report) => {
        for (const at of OPEN_RANGES[resource.type]?.(resource.props) ?? []) {
          if (at.is(...EVERYWHERE))
            report({ resource, at, fix: 'name the security groups or ranges that need access' });
        }
      },
    },
  },
];
