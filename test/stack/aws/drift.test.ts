import { exec } from '../../../src/core/exec';
import { awsStack, HERE, whyNoAwsStack, type AwsStack } from '../../support/aws-stack';
import { describeUnless } from '../../support/describe-unless';
import { askMoto } from '../../support/moto';
import { PUBLISHER } from '../../support/setting-values';
import { Scratch } from '../../support/temp-dir';
import { whyMissing } from '../../support/doc-commands';

const STEP_MS = 15 * 60_000;
const NAMESPACE = 'triton';

/** A change without Pulumi, and the place where drift.yml has to report it. */
interface Change {
  /** Type and name of the resource. */
  resource: string;
  /** The property of it; `create` if the resource is gone. */
  property: string;
  make: (on: Target) => Promise<unknown>;
}

/** How changes reach the resources of a stack. */
interface Target {
  /** Id of a resource: `id('aws:iam/role:Role::server')`. */
  id: (resource: string) => string;
  /** A request in the form of EC2 and IAM. */
  query: (service: 'ec2' | 'iam', action: string, values: Record<string, string>) => Promise<string>;
  /** Puts a setting of a bucket. */
  s3: (bucket: string, what: string, body: string) => Promise<string>;
  eks: (path: string, method: string, body?: object) => Promise<string>;
  kubectl: (...args: string[]) => Promise<unknown>;
}

const VERSIONS = { ec2: '2016-11-15', iam: '2010-05-08' };
const allow = (statement: object): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', ...statement }] });

const object = (resource: string, property: string, ...args: string[]): Change => ({
  resource: `kubernetes:${resource}`,
  property,
  make: ({ kubectl }) => kubectl(...args),
});
const patch = (kind: string, name: string, change: object): string[] => [
  ...['patch', kind, name],
  ...['--type=merge', `--patch=${JSON.stringify(change)}`],
];

const CHANGES: readonly Change[] = [
  {
    resource: 'aws:iam/role:Role::server',
    property: 'assumeRolePolicy',
    make: ({ id, query }) =>
      query('iam', 'UpdateAssumeRolePolicy', {
        RoleName: id('aws:iam/role:Role::server'),
        PolicyDocument: allow({ Action: 'sts:AssumeRole', Principal: { AWS: '*' } }),
      }),
  },
  {
    resource: 'aws:iam/rolePolicy:RolePolicy::publisher',
    property: 'policy',
    make: ({ id, query }) => {
      const [RoleName = '', PolicyName = ''] = id('aws:iam/rolePolicy:RolePolicy::publisher').split(':');
      const PolicyDocument = allow({ Action: 's3:*', Resource: '*' });
      return query('iam', 'PutRolePolicy', { RoleName, PolicyName, PolicyDocument });
    },
  },
  {
    resource: 'aws:iam/rolePolicyAttachment:RolePolicyAttachment::cluster-nodes-AmazonEC2ContainerRegistryPullOnly',
    property: 'create',
    make: ({ id, query }) =>
      query('iam', 'DetachRolePolicy', {
        RoleName: id('aws:iam/role:Role::cluster-nodes'),
        PolicyArn: 'arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly',
      }),
  },
  {
    resource: 'aws:s3/bucketVersioning:BucketVersioning::models',
    property: 'versioningConfiguration',
    make: ({ id, s3 }) => {
      const body = '<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>';
      return s3(id('aws:s3/bucket:Bucket::models'), 'versioning', body);
    },
  },
  {
    resource: 'aws:s3/bucketPolicy:BucketPolicy::models',
    property: 'policy',
    make: ({ id, s3 }) => {
      const bucket = id('aws:s3/bucket:Bucket::models');
      return s3(
        bucket,
        'policy',
        allow({ Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}/*` }),
      );
    },
  },
  {
    resource: 'aws:ec2/route:Route::network-private-us-east-1b',
    property: 'create',
    make: ({ id, query }) =>
      query('ec2', 'DeleteRoute', {
        RouteTableId: id('aws:ec2/routeTable:RouteTable::network-private-us-east-1b'),
        DestinationCidrBlock: '0.0.0.0/0',
      }),
  },
  {
    resource: 'aws:eks/cluster:Cluster::cluster',
    property: 'vpcConfig.publicAccessCidrs',
    make: ({ eks }) => eks('/update-config', 'POST', { resourcesVpcConfig: { publicAccessCidrs: ['0.0.0.0/0'] } }),
  },
  {
    resource: 'aws:eks/accessEntry:AccessEntry::publisher',
    property: 'create',
    make: ({ id, eks }) => {
      const principal = id('aws:eks/accessEntry:AccessEntry::publisher').replace(/^[^:]*:/, '');
      return eks(`/access-entries/${encodeURIComponent(principal)}`, 'DELETE');
    },
  },
  object(
    'apps/v1:Deployment::triton',
    'spec.template.spec.terminationGracePeriodSeconds',
    ...[...patch('deployment', 'triton', { spec: { template: { spec: { terminationGracePeriodSeconds: 99 } } } })],
  ),
  object(
    'networking.k8s.io/v1:NetworkPolicy::triton-default-deny',
    'create',
    'delete',
    'networkpolicy',
    'triton-default-deny',
  ),
];

describeUnless(
  whyNoAwsStack() ?? whyMissing('kubectl'),
  'drift of a stack with the real AWS provider on a mock of AWS',
  () => {
    const scratch = new Scratch();
    let made: AwsStack;
    let target: Target;

    beforeAll(async () => {
      made = await awsStack(scratch, 'staging', { config: { ...PUBLISHER, publicAccessCidrs: [HERE] } });
      const { stack, moto, plane } = made;
      await stack.up();
      const resources = await stack.resources();
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      const KUBECONFIG = plane.access.kubeconfigFile();
      target = {
        id: (resource) => {
          const found = resources.find(({ urn }) => isResource(urn, resource));
          if (found?.id === undefined) throw new Error(`the stack has no ${resource}`);
          return found.id;
        },
        query: (service, action, values) => {
          const parameters = new URLSearchParams({ Action: action, Version: VERSIONS[service], ...values });
          return askMoto(moto, service, '/', form, parameters.toString());
        },
        s3: (bucket, what, body) => askMoto(moto, 's3', `/${bucket}?${what}`, {}, body, 'PUT'),
        eks: (path, method, body) =>
          askMoto(
            moto,
            'eks',
            `/clusters/triton-staging${path}`,
            {},
            body === undefined ? '' : JSON.stringify(body),
            method,
          ),
        kubectl: (...args) =>
          exec('kubectl', ['--namespace', NAMESPACE, ...args], { env: { ...process.env, KUBECONFIG } }),
      };
    }, 60 * 60_000);
    afterAll(() => scratch.clean());

    test(
      'each change is found, with its resource and property, and nothing else',
      async () => {
        const { stack } = made;
        for (const { make } of CHANGES) await make(target);
        const found = await stack.drift();
        const missed = CHANGES.filter(
          ({ resource, property }) =>
            !found.some(
              ({ urn, op, changed }) =>
                isResource(urn, resource) && (op === property || changed.some((path) => path.startsWith(property))),
            ),
        );
        expect(missed.map(({ resource, property }) => `${resource} ${property}`)).toEqual([]);
        const others = found.filter(({ urn }) => !CHANGES.some(({ resource }) => isResource(urn, resource)));
        expect(others).toEqual([]);

        await stack.up('--refresh');
        expect(await stack.drift()).toEqual([]);
      },
      STEP_MS,
    );
  },
);

/** @param resource the type of a resource without those of its parents, and its name */
const isResource = (urn: string, resource: string): boolean =>
  urn.endsWith(`$${resource}`) || urn.endsWith(`::${resource}`);
