import { appliesTo, findings, type Resource } from '../../../policy/rule';
import { rules } from '../../../policy/rules';
import { Value } from '../../../policy/value';
import { registeredStack, type RegisteredResource } from '../../support/registered-stack';
import { PUBLISHER } from '../../support/publisher-settings';

/** As the rules see it: before it is made, or once it is. */
function seen(resource: RegisteredResource, properties: Record<string, unknown>): Resource {
  const { type, name, urn, protect, dependencies, propertyDependencies } = resource;
  return {
    type,
    name,
    urn,
    protect,
    production: urn.startsWith('urn:pulumi:prod:'),
    props: Value.ofResource(properties),
    madeFrom: (property) => (property === undefined ? dependencies : (propertyDependencies[property] ?? [])),
  };
}

/** All that the pack has to say of a stack, as Pulumi would ask it. */
function violations(resources: readonly RegisteredResource[]): string[] {
  const before = resources.map((resource) => seen(resource, resource.inputs));
  const after = resources.map((resource) => seen(resource, resource.state));
  return rules.flatMap(({ each, stack, ...rule }) => [
    ...(each === undefined ? [] : findings({ ...rule, each }, before)),
    ...(stack === undefined ? [] : findings({ ...rule, stack }, after)),
  ]);
}

/** Types of resources that a rule would look at, for the rules that look at one at a time. */
const looksAt = (resources: readonly RegisteredResource[]): string[] =>
  rules
    .filter(({ each }) => each !== undefined && resources.some(({ type }) => appliesTo(each, type)))
    .map((r) => r.name);

const GROUPS = {
  gpuNodePools: [
    {
      name: 'slices',
      mechanism: 'managed-node-group',
      ami: 'AL2023',
      instanceTypes: ['g5.xlarge'],
      timeSlices: 4,
      dcgmExporter: true,
    },
  ],
};

describe.each([
  ['staging', PUBLISHER],
  ['prod', PUBLISHER],
  ['staging', GROUPS],
  ['staging', { ...PUBLISHER, prunerSubjects: ['repo:acme/serving:environment:prune'] }],
  ['staging', { bucketReaders: ['arn:aws:iam::444455556666:role/deploy-prod'] }],
])('%s %j', (name, changes) => {
  let resources: RegisteredResource[];
  beforeAll(async () => {
    ({ resources } = await registeredStack(name, changes));
  });

  test('the policy pack reports no violation', () => {
    expect(violations(resources)).toEqual([]);
  });

  test('the policy pack checks more than 20 resources', () => {
    expect(looksAt(resources).length).toBeGreaterThan(20);
  });

  test('the policy pack reports each bucket without its guards', () => {
    const guards = /aws:s3\/bucket(Policy|PublicAccessBlock|Versioning|OwnershipControls|ServerSide\w*):/;
    const bare = violations(resources.filter(({ type }) => !guards.test(type)));
    const buckets = resources.filter(({ type }) => type === 'aws:s3/bucket:Bucket');
    expect(bare.filter((text) => text.startsWith('aws:s3/bucket:Bucket'))).toHaveLength(5 * buckets.length);
  });
});
