import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../../src/core/paths';
import { describeUnless } from '../../support/describe-unless';
import { whyMissing } from '../../support/doc-commands';
import { PUBLISHER } from '../../support/publisher-settings';
import { registeredStack, type RegisteredResource } from '../../support/registered-stack';
import { Scratch } from '../../support/temp-dir';

/** Value of a property that is unknown in a preview. */
const UNKNOWN = '04da6b54-80e4-46f7-96ec-b56ff0331ba9';
const ADMIN = 'arn:aws:iam::123456789012:role/admins';
const CLUSTER = {
  type: 'aws:eks/cluster:Cluster',
  name: 'triton-prod',
  id: 'triton-prod',
  arn: 'arn:aws:eks:us-east-1:123456789012:cluster/triton-prod',
  issuer: 'https://oidc.eks.us-east-1.amazonaws.com/id/A1',
};
const ASSOCIATION = 'aws:ec2/routeTableAssociation:RouteTableAssociation';
const OIDC_PROVIDER = 'aws:iam/openIdConnectProvider:OpenIdConnectProvider';
const GITHUB = 'https://token.actions.githubusercontent.com';

interface Row {
  type: string;
  name: string;
  id: string;
}

describeUnless(whyMissing('jq'), 'ids.jq', () => {
  const scratch = new Scratch();
  let resources: RegisteredResource[];

  beforeAll(async () => {
    const { resources: all } = await registeredStack('prod', {
      ...PUBLISHER,
      publicAccessCidrs: ['192.0.2.0/24'],
      clusterAdmins: [ADMIN],
      gpuNodePools: [
        { name: 'a10g', instanceTypes: ['g5.2xlarge'], maximumGpus: 3 },
        { name: 'large', instanceTypes: ['g5.4xlarge'], maximumGpus: 3 },
        {
          name: 'fixed',
          mechanism: 'managed-node-group',
          instanceTypes: ['g5.2xlarge'],
          minimumNodes: 1,
          maximumNodes: 1,
        },
      ],
    });
    resources = all.filter(({ type }) => type !== 'pulumi:pulumi:Stack');
  });
  afterAll(() => scratch.clean());

  /** What aws.sh prints for these resources, and rows of another stack. */
  function listed(): Row[] {
    const found = resources
      .filter(({ type }) => type.startsWith('aws:') && type !== CLUSTER.type)
      .filter(({ type }) => !/:(RouteTableAssociation|OpenIdConnectProvider)$/.test(type))
      .map(({ type, name, inputs }) => {
        const tag = (inputs['tags'] as { Name?: string } | undefined)?.Name;
        const given = type === 'aws:cloudwatch/logGroup:LogGroup' ? (inputs['name'] as string | undefined) : undefined;
        const physical = tag ?? given ?? `triton-prod-${name}-a1b2c3d`;
        return type === 'aws:iam/role:Role'
          ? { type, name: physical, id: physical, arn: `arn:aws:iam::123456789012:role/${physical}` }
          : { type, name: physical, id: `id of ${name}` };
      });
    const subnets = found.filter(({ type }) => type === 'aws:ec2/subnet:Subnet');
    return [
      CLUSTER,
      ...found,
      ...found.map((row) => ({ ...row, name: row.name.replace('prod', 'prod2') })),
      ...subnets.map(({ id }) => ({ type: ASSOCIATION, name: id, id: `${id}/table` })),
      ...[CLUSTER.issuer, GITHUB].map((url) => ({ type: OIDC_PROVIDER, name: url, id: `id of ${url}` })),
    ];
  }

  /** What kubectl prints. */
  const objects = (): object[] =>
    resources
      .filter(({ type }) => type.startsWith('kubernetes:'))
      .map(({ type, name, inputs }) => {
        const [, version = '', kind] = type.split(':');
        const metadata = inputs['metadata'] as { name?: string; namespace?: string };
        return {
          apiVersion: version.replace('core/', ''),
          kind,
          metadata: { ...metadata, name: metadata.name ?? `${name}-a1b2c3d4` },
        };
      });

  /** Runs ids.jq. Returns "TYPE NAME" -> the entry of the import file. */
  function run(rows: readonly Row[]): Map<string, { id?: string; inputs?: object }> {
    const file = (name: string, content: object): string => {
      const path = join(scratch.directory, name);
      writeFileSync(path, JSON.stringify(content));
      return path;
    };
    const steps = resources.map(({ urn, inputs, propertyDependencies }) => {
      const known = Object.entries(inputs).map(([key, value]) => {
        const isUnknown = typeof value === 'string' && (propertyDependencies[key] ?? []).length > 0;
        return [key, isUnknown ? UNKNOWN : value] as const;
      });
      return { op: 'create', urn, newState: { urn, inputs: Object.fromEntries(known) } };
    });
    const entries = resources.map(({ type, name, urn, parent, custom }) => ({
      ...{ type, name: urn, logicalName: name, parent },
      ...(!custom ? { component: true } : type.startsWith('pulumi:') ? {} : { id: '<PLACEHOLDER>' }),
    }));
    const printed = execFileSync('jq', [
      ...['--slurpfile', 'plan', file('plan.json', { steps })],
      ...['--slurpfile', 'objects', file('objects.json', { items: objects() })],
      ...['--slurpfile', 'aws', file('aws.json', rows)],
      ...['--from-file', join(paths.root, 'infra', 'import', 'ids.jq')],
      file('import.json', { resources: entries }),
    ]);
    const made = JSON.parse(printed.toString()) as {
      resources: { type: string; logicalName: string; id?: string; inputs?: object }[];
    };
    return new Map(made.resources.map((entry) => [`${entry.type.split(':').at(-1)} ${entry.logicalName}`, entry]));
  }

  test('sets the id of every resource of prod with pools of both mechanisms', () => {
    const entries = run(listed());
    expect([...entries].filter(([, { id }]) => id === '<PLACEHOLDER>').map(([key]) => key)).toEqual([]);
    const role = (name: string): string => `arn:aws:iam::123456789012:role/${name}-a1b2c3d`;
    const expected = {
      'Vpc network': 'id of network',
      'Route network-public': 'id of network-public_0.0.0.0/0',
      'RouteTableAssociation network-public-us-east-1a': 'id of network-public-us-east-1a/table',
      'Bucket models': 'id of models',
      'BucketPolicy models': 'id of models',
      'BucketPolicy models-access-logs': 'id of models-access-logs',
      'Cluster cluster': 'triton-prod',
      'LogGroup cluster-control-plane': 'id of cluster-control-plane',
      'Addon cluster-addons-vpc-cni': 'triton-prod:vpc-cni',
      'AccessEntry cluster-admin-admins-3f315556': `triton-prod:${ADMIN}`,
      'AccessEntry publisher': `triton-prod:${role('triton-prod-publisher')}`,
      'AccessPolicyAssociation gpu-auto-mode': `triton-prod#${role('triton-prod-gpu-auto-mode')}#arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy`,
      'AccessPolicyAssociation cluster-admin-admins-3f315556': `triton-prod#${ADMIN}#arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy`,
      'OpenIdConnectProvider cluster-pods': `id of ${CLUSTER.issuer}`,
      'OpenIdConnectProvider publisher-issuer': `id of ${GITHUB}`,
      'RolePolicyAttachment gpu-groups-AmazonEKS_CNI_Policy':
        'triton-prod-gpu-groups-a1b2c3d/arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy',
      'NodePool gpu-large': 'large',
      'ConfigMap triton-agent': 'triton/triton-agent-a1b2c3d4',
    };
    expect(Object.fromEntries(Object.keys(expected).map((key) => [key, entries.get(key)?.id]))).toEqual(expected);
    const provider = [...entries].find(([key]) => key.startsWith('kubernetes kubernetes-'))?.[1];
    expect(provider?.inputs).toEqual({ clusterIdentifier: CLUSTER.arn });
  });

  test('sets no id of a resource to which several existing ones correspond', () => {
    const second = { type: 'aws:s3/bucket:Bucket', name: 'triton-prod-models-0000000', id: 'second' };
    const entries = run([...listed(), second]);
    expect(entries.get('Bucket models')?.id).toBe('<PLACEHOLDER>');
    expect(entries.get('BucketPolicy models')?.id).toBe('<PLACEHOLDER>');
    expect(entries.get('Bucket models-access-logs')?.id).toBe('id of models-access-logs');
  });
});
