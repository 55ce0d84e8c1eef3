import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rules } from '../../../policy/rules';
import { paths } from '../../../src/core/paths';
import { violations } from '../../support/policy-violations';
import { PUBLISHER } from '../../support/setting-values';
import { LOCAL_VALUES, registeredStack, type RegisteredResource } from '../../support/registered-stack';
import { WIDE_SUBJECTS } from '../infra/subjects';

/** The stacks of the repository, with settings that add resources that rules check. */
const STACKS = {
  prod: ['prod', { ...PUBLISHER, bucketReaders: ['arn:aws:iam::444455556666:role/deploy-prod'] }],
  pruned: ['staging', { ...PUBLISHER, prunerSubjects: ['repo:acme/serving:environment:prune'] }],
  groups: [
    'staging',
    { gpuNodePools: [{ name: 'a', instanceTypes: ['g5.xlarge'], capacityTypes: ['spot'], nodes: 1 }] },
  ],
  ingress: [
    'prod',
    {
      exposure: {
        kind: 'ingress',
        host: 'a.example.com',
        tlsSecretName: 'tls',
        annotations: { 'example.com/a': 'b' },
      },
    },
  ],
  local: ['local', LOCAL_VALUES],
} as const satisfies Record<string, readonly [string, object]>;
type StackName = keyof typeof STACKS;

const stacks = new Map<string, Promise<RegisteredResource[]>>();
const getStack = async (name: StackName): Promise<RegisteredResource[]> => {
  const [of, changes] = STACKS[name];
  const made = stacks.get(name) ?? registeredStack(of, changes).then(({ resources }) => resources);
  stacks.set(name, made);
  return made;
};

/** A copy in which `change` replaced the value at a path. JSON text counts as the value that it contains. */
function changed(value: unknown, [key, ...rest]: readonly string[], change: (inner: unknown) => unknown): unknown {
  if (key === undefined) return change(value);
  if (typeof value === 'string') return JSON.stringify(changed(JSON.parse(value), [key, ...rest], change));
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<string, unknown>;
  copy[key] = changed(copy[key], rest, change);
  return copy;
}

describe.each(Object.keys(STACKS) as StackName[])('stack %s', (name) => {
  test('the policy pack reports no violation', async () => {
    const stack = await getStack(name);
    expect(rules.flatMap((rule) => violations(rule.name, stack))).toEqual([]);
  });

  test('the policy pack reports no violation while properties are unknown', async () => {
    const stack = await getStack(name);
    const unknown = (properties: object, key: string): Record<string, unknown> =>
      Object.defineProperty({ ...properties }, key, {
        enumerable: true,
        get: () => {
          throw new Error(`value at .${key} can't be known during preview`);
        },
      });
    /** Copies of a value with one unknown property each, at any depth. */
    const withUnknown = (value: unknown): [string, unknown][] =>
      typeof value !== 'object' || value === null
        ? []
        : Object.keys(value)
            // Rules find resources by type and references, and pools by the operator of a requirement.
            .filter((key) => !['metadata', 'operator'].includes(key))
            .flatMap((key): [string, unknown][] => [
              ...(Array.isArray(value) ? [] : [[key, unknown(value, key)] as [string, unknown]]),
              ...withUnknown((value as Record<string, unknown>)[key]).map(([path, inner]): [string, unknown] => [
                `${key}.${path}`,
                changed(value, [key], () => inner),
              ]),
            ]);
    const stopped = rules.flatMap((rule) =>
      stack
        .filter(({ type }) => rule.applies.includes(type))
        .flatMap((resource) =>
          withUnknown(resource.inputs).flatMap(([path, inputs]) => {
            const hidden = { ...resource, inputs: inputs as RegisteredResource['inputs'] };
            const all = rule.checkInStack ? stack.map((one) => (one === resource ? hidden : one)) : [hidden];
            return violations(rule.name, all).map((message) => `${path} unknown: ${message}`);
          }),
        ),
    );
    expect(stopped).toEqual([]);
  });
});

const CONTAINER = 'spec template spec containers 0';
const TRUST = 'assumeRolePolicy Statement 0';
const SUBJECT = `${TRUST} Condition StringEquals token.actions.githubusercontent.com:sub`;
const AUDIENCE = `${TRUST} Condition StringEquals oidc.eks.us-east-1.amazonaws.com/id/A1B2C3:aud`;
const ATTACHMENT = 'aws:iam/rolePolicyAttachment:RolePolicyAttachment';
const MANAGED = 'arn:aws:iam::aws:policy';
const INLINE = { policy: '{"Statement":{"Effect":"Allow","Action":"s3:*"}}' };
const without = (pattern: RegExp) => (list: string[]) => list.filter((one) => !pattern.test(one));
const and = (more: string) => (list: string[]) => [list, more].flat();

/** Path in the resource, separated by spaces; the new value, or a change of the old one; and a part of the message. */
type Mutant = readonly [path: string, to: unknown, message: string];

/** Changes of resources of real stacks, which the rule must find: rule, stack, kind and name of the resource -> changes. */
const MUTANTS: Readonly<Record<string, readonly Mutant[]>> = {
  'triton-drains prod Deployment triton': [
    [`${CONTAINER} lifecycle`, undefined, 'lifecycle.preStop is not set; add'],
    [`${CONTAINER} lifecycle preStop sleep seconds`, 300, 'set it to at least 330,'],
    [`${CONTAINER} args 6`, '--exit-timeout-secs=600', 'set it to at least 615,'],
    ['spec template spec terminationGracePeriodSeconds', undefined, 'is not set; set it to at least 45,'],
  ],
  'triton-control-guarded local Deployment triton': [
    [`${CONTAINER} args`, without(/^--http-restricted/), 'add --http-restricted-api=model-repository'],
    [`${CONTAINER} args`, without(/^--grpc-restricted/), 'add --grpc-restricted-protocol=model-repository'],
    [`${CONTAINER} args`, without(/model-repository,/), 'every client can use its model control API'],
  ],
  'control-api-not-routed ingress Ingress triton': [
    ...['/', '/v2/', '/v2/repository', '/v2/repository/index'].map((path): Mutant => [
      'spec rules 0 http paths 1 path',
      path,
      `path is "${path}"; use /v2/models`,
    ]),
    ['spec rules 0 http paths 1 path', undefined, 'paths[1].path is not set; use'],
    ['spec rules 0 http paths 0 pathType', 'Prefix', 'paths[0].path is "/v2"; use'],
    ['spec defaultBackend', { service: { name: 'triton' } }, 'remove it'],
  ],
  'ingress-guarded ingress Ingress triton': [
    ['spec tls', undefined, 'spec.tls is not set; add the hosts'],
    ['metadata annotations alb.ingress.kubernetes.io/scheme', 'internet-facing', 'set it to internal, or add'],
  ],
  'service-internal prod Service triton': [
    ['spec type', 'NodePort', 'is "NodePort"; set it to ClusterIP.'],
    ['spec type', 'LoadBalancer', 'aws-load-balancer-scheme is not set; set it to internal.'],
  ],
  'gpu-pool-limited prod NodePool gpu-a10g': [['spec limits', undefined, 'spec.limits is not set; set nvidia']],
  'models-written-by-publishers prod RolePolicy server': [
    ...['s3:PutObject', 's3:DeleteObject*', 's3:*', '*', 's?:PutObject'].map((action): Mutant => [
      'policy Statement 1 Action',
      and(action),
      `is "${action}"; grant it to`,
    ]),
    ['policy Statement 1 NotAction', 'iam:*', 'NotAction is "iam:*"; grant it to'],
  ],
  'models-written-by-publishers pruned Role publisher': [
    [SUBJECT, 'system:serviceaccount:triton:triton', 'grant it to the role of the publisher only'],
  ],
  'models-written-by-publishers prod Role server': [['inlinePolicies', [INLINE], 'Action is "s3:*"; grant it']],
  'models-read-by-own-role prod Role server': [
    [`${TRUST} Principal`, { Service: 'ec2.amazonaws.com' }, 'is "s3:GetObject"; grant it to the role of a service'],
  ],
  'models-read-by-own-role prod RolePolicy network-flow-logs': [
    ['policy Statement 0 Action', ['s3:Get*'], 'is "s3:Get*"; grant'],
  ],
  'no-managed-bucket-access prod RolePolicyAttachment cluster-control-plane-AmazonEKSClusterPolicy': [
    ['policyArn', `${MANAGED}/AmazonS3FullAccess`, 'write a policy'],
    ['policyArn', `${MANAGED}/AdministratorAccess`, 'write a policy'],
    ['policyArn', `${MANAGED}/ReadOnlyAccess`, 'write a policy'],
  ],
  'no-managed-bucket-access prod Role server': [
    ['managedPolicyArns', [`${MANAGED}/AmazonS3ReadOnlyAccess`], 'write a policy'],
  ],
  'bucket-policy-reads-only prod BucketPolicy models': [
    ['policy Statement 3 Principal', '*', 'Principal is "*"; name the roles'],
    ['policy Statement 3 Principal AWS', 'arn:aws:iam::444455556666:root', 'name the roles'],
    ['policy Statement 3 Action', and('s3:PutObject'), 'Action[1] is "s3:PutObject"; grant it to'],
  ],
  'role-trust-narrow prod Role server': [
    [`${TRUST} Principal`, '*', 'Principal is "*"; name the accounts'],
    [`${TRUST} Principal`, { AWS: 'arn:aws:iam::*:role/ci' }, 'name the accounts'],
    [`${TRUST} Condition`, undefined, 'every identity of the provider may assume the role'],
    [AUDIENCE, undefined, 'tokens for every audience are accepted'],
    [AUDIENCE, '${aws:username}', 'name the audience'],
  ],
  'role-trust-narrow prod Role publisher': WIDE_SUBJECTS.map((subject): Mutant => [
    SUBJECT,
    and(subject),
    `:sub[1] is "${subject}"; name one environment`,
  ]),
  'protected-models-readable prod Bucket models': [['forceDestroy', true, 'is true; set it to false.']],
  'protected-models-readable prod Key models-key': [['protect', false, 'set protect on aws:kms/key:Key "models']],
};

test.each(Object.entries(MUTANTS).flatMap(([of, mutants]) => mutants.map((mutant) => [of, ...mutant] as const)))(
  '%s with another %s: %j',
  async (of, path, to, message) => {
    const [rule = '', name = '', kind, resourceName] = of.split(' ');
    const change = typeof to === 'function' ? (to as (value: unknown) => unknown) : () => to;
    const mutant = (await getStack(name as StackName)).map((resource) => {
      if (resource.name !== resourceName || resource.type.split(':').at(-1) !== kind) return resource;
      if (path === 'protect') return { ...resource, protect: to as boolean };
      return { ...resource, inputs: changed(resource.inputs, path.split(' '), change) as RegisteredResource['inputs'] };
    });
    expect(violations(rule, mutant).join('\n')).toContain(message);
  },
);

test('models-written-by-publishers finds a policy through its attachment to a role', async () => {
  const stack = (await getStack('prod')).map((resource) => {
    const { name, type, inputs, propertyDependencies } = resource;
    if (type !== 'aws:iam/rolePolicy:RolePolicy' || name !== 'server') return resource;
    const policy = { ...resource, type: 'aws:iam/policy:Policy', inputs: { policy: INLINE.policy } };
    const { role = [] } = propertyDependencies;
    const links = { role, policyArn: [policy.urn] };
    const attachment = { ...resource, type: ATTACHMENT, urn: 'a', inputs };
    return [
      { ...policy, propertyDependencies: {} },
      { ...attachment, propertyDependencies: links },
    ];
  });
  expect(violations('models-written-by-publishers', stack.flat()).join()).toContain(
    'Policy "server": policy.Statement',
  );
});

test('each rule has a mutant', () => {
  const tested = new Set(Object.keys(MUTANTS).map((of) => of.split(' ')[0]));
  expect([...tested].sort()).toEqual(rules.map(({ name }) => name).sort());
});

test('the pack has the version of the project', () => {
  const { version } = JSON.parse(readFileSync(join(paths.root, 'package.json'), 'utf8')) as { version: string };
  expect(readFileSync(join(paths.root, 'policy', 'PulumiPolicy.yaml'), 'utf8')).toContain(`\nversion: ${version}\n`);
});
