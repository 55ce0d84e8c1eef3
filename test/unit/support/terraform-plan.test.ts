import type { RegisteredResource } from '../../support/registered-stack';
import { terraformPlan } from '../../support/terraform-plan';

function resource(type: string, name: string, inputs: object, from: Record<string, string[]> = {}): RegisteredResource {
  return {
    type,
    name,
    urn: `urn:${name}`,
    parent: '',
    inputs: inputs as Record<string, unknown>,
    state: {},
    protect: false,
    custom: true,
    dependencies: [],
    propertyDependencies: from,
  };
}

const bucket = resource('aws:s3/bucket:Bucket', 'my-models', { forceDestroy: false, tags: { camelCase: 'x' } });
const encryption = resource(
  'aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration',
  'encryption',
  { bucket: 'my-models-1', rules: [{ applyServerSideEncryptionByDefault: { sseAlgorithm: 'aws:kms' } }] },
  { bucket: ['urn:my-models'] },
);
const policy = resource(
  'aws:s3/bucketPolicy:BucketPolicy',
  'policy',
  { bucket: 'my-models-1', policy: '{}' },
  { bucket: ['urn:my-models'], policy: ['urn:my-models'] },
);

interface Plan {
  planned_values: { root_module: { resources: { address: string; values: object }[] } };
  configuration: { root_module: { resources: { address: string; expressions: object }[] } };
}

test('a plan has the resources in the words of Terraform, and what they refer to', () => {
  const component = { ...bucket, type: 'triton-serving:infra:ModelRepository', custom: false };
  const namespace = resource('kubernetes:core/v1:Namespace', 'triton', {});
  const plan = terraformPlan([component, namespace, bucket, encryption, policy]) as Plan;
  const values = plan.planned_values.root_module.resources.map((one) => [one.address, one.values]);
  expect(Object.fromEntries(values)).toEqual({
    'aws_s3_bucket.my_models': { force_destroy: false, tags: { camelCase: 'x' } },
    // The bucket's name comes from what is still to be made.
    'aws_s3_bucket_server_side_encryption_configuration.encryption': {
      rule: [{ apply_server_side_encryption_by_default: [{ sse_algorithm: 'aws:kms' }] }],
    },
    'aws_s3_bucket_policy.policy': { policy: '{}' },
  });
  const references = { bucket: { references: ['aws_s3_bucket.my_models.id', 'aws_s3_bucket.my_models'] } };
  expect(plan.configuration.root_module.resources.map(({ expressions }) => expressions)).toEqual([
    {},
    references,
    references,
  ]);
});

test('a type without a name in Terraform is an error, so that nothing is left out unseen', () => {
  expect(() => terraformPlan([resource('aws:sqs/queue:Queue', 'q', {})])).toThrow(
    "Terraform's name is not known here of aws:sqs/queue:Queue",
  );
});
