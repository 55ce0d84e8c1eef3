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
    description: "A cluster's API is reachable from its network, and from elsewhere only from a list of addresses.",
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const config = resource.props.at('vpcConfig');
        const privately = config.at('endpointPrivateAccess');
        if (!privately.mayBe(true)) {
          report({ resource, at: privately, fix: 'set it to true, so that nodes do not cross the NAT' });
        }
        if (config.at('endpointPublicAccess').mayBe(false)) return;
        const ranges = config.at('publicAccessCidrs');
        const fix = 'list the addresses that need it, or set endpointPublicAccess to false';
        if (ranges.isMissing()) report({ resource, at: ranges, fix });
        for (const at of ranges.items()) if (at.is(...EVERYWHERE)) report({ resource, at, fix });
      },
    },
  },
  {
    name: 'cluster-secrets-encrypted',
    description: "Kubernetes' secrets are encrypted with a KMS key of one's own.",
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
    description: 'The control plane logs who did what.',
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
    description: 'Who may do what in a cluster is in access entries, which AWS logs, and not in a ConfigMap.',
    each: {
      types: [CLUSTER],
      check: (resource, report) => {
        const mode = resource.props.at('accessConfig.authenticationMode');
        if (!mode.mayBe('API')) report({ resource, at: mode, fix: 'set it to API' });
      },
    },
  },
  {
    name: 'cluster-version-pinned',
    description: 'The version of Kubernetes is chosen, never the newest on the day.',
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
    description: 'Nobody logs in to a node of a group by SSH from everywhere.',
    each: {
      types: [NODE_GROUP],
      check: (resource, report) => {
        const access = resource.props.at('remoteAccess');
        if (access.isThere() && access.at('sourceSecurityGroupIds').isMissing()) {
          report({ resource, at: access, fix: 'leave it out, and use Session Manager' });
        }
      },
    },
  },
  {
    name: 'node-group-gpu-tainted',
    description: 'GPU nodes have a taint, so that what needs no GPU does not keep them alive.',
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
    description: 'No security group lets the whole internet in.',
    each: {
      types: Object.keys(OPEN_RANGES),
      check: (resource, report) => {
        for (const at of OPEN_RANGES[resource.type]?.(resource.props) ?? []) {
          if (at.is(...EVERYWHERE)) report({ resource, at, fix: 'name the security groups or ranges that need it' });
        }
      },
    },
  },
];
