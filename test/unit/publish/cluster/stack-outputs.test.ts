import { UserError } from '../../../../src/core/errors';
import { parseStackOutputs } from '../../../../src/publish/cluster/stack-outputs';

const bucket = { modelRepository: 's3://bucket/models', region: 'eu-central-1' };
const kubeconfig = { apiVersion: 'v1', clusters: [], users: [{ name: 'me', user: { token: 'very-secret-token' } }] };
const cluster = { kubeconfig, namespace: 'serving', podSelector: 'app=triton' };

test('parseStackOutputs accepts a stack with only a bucket', () => {
  expect(parseStackOutputs('dev', bucket)).toEqual(bucket);
});

test('parseStackOutputs returns endpoint and cluster, and omits other outputs', () => {
  const outputs = { ...bucket, endpointUrl: 'http://127.0.0.1:9000', ...cluster, vpcId: 'vpc-1' };
  expect(parseStackOutputs('dev', outputs)).toEqual({
    ...bucket,
    endpointUrl: 'http://127.0.0.1:9000',
    cluster: { kubeconfig: JSON.stringify(kubeconfig), namespace: 'serving', podSelector: 'app=triton' },
  });
});

test('parseStackOutputs keeps a kubeconfig that is text', () => {
  const outputs = { ...bucket, ...cluster, kubeconfig: 'apiVersion: v1\nkind: Config\n' };
  expect(parseStackOutputs('dev', outputs).cluster?.kubeconfig).toBe('apiVersion: v1\nkind: Config\n');
});

test('parseStackOutputs treats null as a missing output', () => {
  expect(parseStackOutputs('dev', { ...bucket, endpointUrl: null, kubeconfig: null })).toEqual(bucket);
});

const getProblems = (outputs: Record<string, unknown>): [string | undefined, string][] => {
  try {
    parseStackOutputs('dev', outputs);
  } catch (error) {
    return (error as UserError).problems.map(({ field, message }) => [field, message]);
  }
  return [];
};

test('parseStackOutputs reports all problems at once, by output and stack', () => {
  expect(getProblems({ endpointUrl: 'localhost:9000', region: 7 })).toEqual([
    ['output modelRepository', 'is missing (the model repository)'],
    ['output region', 'is 7 (the AWS region of its bucket)'],
    ['output endpointUrl', `is "localhost:9000" (an S3 API that is not AWS's)`],
  ]);
  expect(() => parseStackOutputs('dev', {})).toThrow('stack dev does not have the outputs that publishing needs');
});

test.each(['models', 's3://bucket', 's3://bucket/', 's3:///models', '', ['s3://bucket/models']])(
  'parseStackOutputs rejects the model repository %j',
  (modelRepository) => {
    expect(getProblems({ ...bucket, modelRepository })).toEqual([
      ['output modelRepository', `is ${JSON.stringify(modelRepository)} (the model repository)`],
    ]);
  },
);

test('parseStackOutputs requires all outputs of a cluster if one exists', () => {
  expect(getProblems({ ...bucket, podSelector: 'app=triton' })).toEqual([
    ['output kubeconfig', 'is missing (the credentials of the cluster)'],
    ['output namespace', 'is missing (the namespace of the Triton pods)'],
  ]);
});

test('parseStackOutputs does not show a secret of the wrong type', () => {
  expect(getProblems({ ...bucket, ...cluster, kubeconfig: ['very-secret-token'] })).toEqual([
    ['output kubeconfig', 'is a list that is not shown (the credentials of the cluster)'],
  ]);
});
