/** Properties that AWS adds to a new resource, if other resources of a stack depend on them. */

type Properties = Record<string, unknown>;

const REGION = 'us-east-1';
/** AWS account of the mocks. */
export const ACCOUNT = '123456789012';

const arn = (service: string, rest: string): string => `arn:aws:${service}:${REGION}:${ACCOUNT}:${rest}`;

/** A property if it is a string, otherwise a default. */
const textOr = (value: unknown, otherwise: string): string => (typeof value === 'string' ? value : otherwise);

const STATES: Readonly<Record<string, (name: string, inputs: Properties) => Properties & { id?: string }>> = {
  'aws:s3/bucket:Bucket': (name, { bucket }) => {
    const id = textOr(bucket, `${name}-a1b2c3d`);
    return { id, bucket: id, arn: `arn:aws:s3:::${id}` };
  },
  'aws:kms/key:Key': (name) => ({ id: name, keyId: name, arn: arn('kms', `key/${name}`) }),
  'aws:iam/role:Role': (name, inputs) => {
    const role = textOr(inputs['name'], `${name}-a1b2c3d`);
    return { id: role, name: role, arn: `arn:aws:iam::${ACCOUNT}:role/${role}` };
  },
  'aws:iam/openIdConnectProvider:OpenIdConnectProvider': (_, { url }) => ({
    arn: `arn:aws:iam::${ACCOUNT}:oidc-provider/${textOr(url, '').replace(/^https:\/\//, '')}`,
  }),
  'aws:eks/cluster:Cluster': (_, { name, vpcConfig }) => ({
    id: textOr(name, ''),
    arn: arn('eks', `cluster/${textOr(name, '')}`),
    endpoint: `https://A1B2C3.gr7.${REGION}.eks.amazonaws.com`,
    certificateAuthority: { data: 'Y2VydGlmaWNhdGU=' },
    identities: [{ oidcs: [{ issuer: `https://oidc.eks.${REGION}.amazonaws.com/id/A1B2C3` }] }],
    vpcConfig: { ...(vpcConfig as object), clusterSecurityGroupId: 'sg-cluster', vpcId: 'vpc-cluster' },
  }),
  'aws:cloudwatch/logGroup:LogGroup': (name, inputs) => {
    const group = textOr(inputs['name'], `${name}-a1b2c3d`);
    return { id: group, name: group, arn: arn('logs', `log-group:${group}`) };
  },
  'aws:ec2/launchTemplate:LaunchTemplate': (name) => ({ id: `lt-${name}`, latestVersion: 1 }),
};

/** Id and properties of a resource with these `inputs`. */
export function mockedState(type: string, name: string, inputs: Properties): { id: string; state: Properties } {
  const kubernetes = /^kubernetes:(?!.*:Provider$)/.test(type);
  const { metadata } = inputs as { metadata?: object };
  const added = kubernetes
    ? { metadata: { name: `${name}-a1b2c3d`, ...metadata } }
    : (STATES[type]?.(name, inputs) ?? { arn: `arn:aws:mocked::${ACCOUNT}:${name}` });
  const { id = `${name}-id`, ...state } = added;
  return { id, state: { ...inputs, ...state } };
}
