import { changed, resource, withUnknown, type Cases } from './case';

const CLUSTER = 'aws:eks/cluster:Cluster';
const GROUP = 'aws:eks/nodeGroup:NodeGroup';
const SECURITY_GROUP = 'aws:ec2/securityGroup:SecurityGroup';
const GOOD = {
  version: '1.34',
  vpcConfig: { endpointPrivateAccess: true, endpointPublicAccess: true, publicAccessCidrs: ['203.0.113.0/24'] },
  encryptionConfig: { resources: ['secrets'], provider: { keyArn: 'arn:aws:kms:::key/1' } },
  enabledClusterLogTypes: ['api', 'audit', 'authenticator', 'scheduler'],
  accessConfig: { authenticationMode: 'API' },
};
const cluster = (path?: string, to?: unknown) =>
  resource(CLUSTER, 'serving', path === undefined ? GOOD : changed(GOOD, path, to));
const OPEN_FIX = 'list the addresses that need access, or set endpointPublicAccess to false.';

const ASSOCIATION = 'aws:eks/accessPolicyAssociation:AccessPolicyAssociation';
const admission = (principal: string, policy = 'AmazonEKSClusterAdminPolicy') =>
  resource(ASSOCIATION, 'ops', {
    principalArn: `arn:aws:iam::123456789012:${principal}`,
    policyArn: `arn:aws:eks::aws:cluster-access-policy/${policy}`,
  });
const BINDING = 'kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding';
const binding = (name: string) => resource(BINDING, 'ops', { roleRef: { kind: 'ClusterRole', name } });

export const clusterCases: Cases = {
  'cluster-admins-are-roles': {
    passes: { 'a role': [admission('role/ops')], 'a user that reads': [admission('user/ops', 'AmazonEKSViewPolicy')] },
    fails: {
      'a user, and the account': {
        stack: [admission('user/ops'), admission('root', 'AmazonEKSAdminPolicy')],
        says: ['user/ops', 'root'].map(
          (end) =>
            `${ASSOCIATION} "ops": principalArn is "arn:aws:iam::123456789012:${end}"; name a role that the people or programs assume.`,
        ),
      },
    },
  },
  'cluster-admin-not-bound': {
    passes: { 'another role': [binding('view')] },
    fails: {
      'all permissions': {
        stack: [binding('cluster-admin')],
        says: `${BINDING} "ops": roleRef.name is "cluster-admin"; bind a role with the permissions that are needed.`,
      },
    },
  },
  'cluster-endpoint-not-open': {
    passes: {
      'a list': [cluster()],
      'private only': [cluster('vpcConfig', { endpointPrivateAccess: true, endpointPublicAccess: false })],
      'a list that is not known yet': [
        resource(CLUSTER, 'serving', {
          vpcConfig: withUnknown({ endpointPrivateAccess: true }, 'publicAccessCidrs'),
        }),
      ],
    },
    fails: {
      'the whole internet': {
        stack: [cluster('vpcConfig.publicAccessCidrs', ['203.0.113.0/24', '0.0.0.0/0'])],
        says: `${CLUSTER} "serving": vpcConfig.publicAccessCidrs[1] is "0.0.0.0/0"; ${OPEN_FIX}`,
      },
      'not set, which means the whole internet': {
        stack: [cluster('vpcConfig', { subnetIds: [] })],
        says: [
          `${CLUSTER} "serving": vpcConfig.endpointPrivateAccess is not set; set it to true, so that nodes reach the API without NAT.`,
          `${CLUSTER} "serving": vpcConfig.publicAccessCidrs is not set; ${OPEN_FIX}`,
        ],
      },
    },
  },
  'cluster-secrets-encrypted': {
    passes: { encrypted: [cluster()] },
    fails: {
      'without a key': {
        stack: [cluster('encryptionConfig', undefined)],
        says: `${CLUSTER} "serving": encryptionConfig is not set; set resources: ["secrets"] and provider.keyArn.`,
      },
    },
  },
  'cluster-logs': {
    passes: { 'the three and more': [cluster()] },
    fails: {
      'one of three': {
        stack: [cluster('enabledClusterLogTypes', ['audit'])],
        says: `${CLUSTER} "serving": enabledClusterLogTypes is ["audit"]; add api, authenticator.`,
      },
    },
  },
  'cluster-access-entries': {
    passes: { API: [cluster()] },
    fails: {
      both: {
        stack: [cluster('accessConfig.authenticationMode', 'API_AND_CONFIG_MAP')],
        says: `${CLUSTER} "serving": accessConfig.authenticationMode is "API_AND_CONFIG_MAP"; set it to API.`,
      },
    },
  },
  'cluster-version-pinned': {
    passes: { pinned: [cluster()] },
    fails: {
      'without a version': {
        stack: [cluster('version', undefined)],
        says: `${CLUSTER} "serving": version is not set; name a version that AWS supports.`,
      },
    },
  },
  'node-group-no-ssh': {
    passes: {
      none: [resource(GROUP, 'gpu', {})],
      'from one group': [
        resource(GROUP, 'gpu', { remoteAccess: { ec2SshKey: 'k', sourceSecurityGroupIds: ['sg-1'] } }),
      ],
    },
    fails: {
      'from everywhere': {
        stack: [resource(GROUP, 'gpu', { remoteAccess: { ec2SshKey: 'k' } })],
        says: `${GROUP} "gpu": remoteAccess is {"ec2SshKey":"k"}; remove it and use Session Manager.`,
      },
    },
  },
  'node-group-gpu-tainted': {
    passes: {
      tainted: [
        resource(GROUP, 'gpu', {
          amiType: 'AL2023_x86_64_NVIDIA',
          taints: [{ key: 'nvidia.com/gpu', effect: 'NO_SCHEDULE' }],
        }),
      ],
      'without GPUs': [resource(GROUP, 'system', { amiType: 'AL2023_x86_64_STANDARD' })],
    },
    fails: {
      'without a taint': {
        stack: [resource(GROUP, 'gpu', { amiType: 'BOTTLEROCKET_x86_64_NVIDIA' })],
        says: `${GROUP} "gpu": taints is not set; add { key: "nvidia.com/gpu", effect: "NO_SCHEDULE" }.`,
      },
    },
  },
  'security-group-not-open': {
    passes: {
      'one range': [resource(SECURITY_GROUP, 'nodes', { ingress: [{ cidrBlocks: ['10.0.0.0/16'] }] })],
      'out to everywhere': [
        resource('aws:ec2/securityGroupRule:SecurityGroupRule', 'out', { type: 'egress', cidrBlocks: ['0.0.0.0/0'] }),
      ],
    },
    fails: {
      'in from everywhere, in three ways': {
        stack: [
          resource(SECURITY_GROUP, 'a', { ingress: [{ cidrBlocks: [], ipv6CidrBlocks: ['::/0'] }] }),
          resource('aws:ec2/securityGroupRule:SecurityGroupRule', 'b', { type: 'ingress', cidrBlocks: ['0.0.0.0/0'] }),
          resource('aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule', 'c', { cidrIpv4: '0.0.0.0/0' }),
        ],
        says: [
          `${SECURITY_GROUP} "a": ingress[0].ipv6CidrBlocks[0] is "::/0"; name the security groups or ranges that need access.`,
          'aws:ec2/securityGroupRule:SecurityGroupRule "b": cidrBlocks[0] is "0.0.0.0/0"; name the security groups or ranges that need access.',
          'aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule "c": cidrIpv4 is "0.0.0.0/0"; name the security groups or ranges that need access.',
        ],
      },
    },
  },
};
