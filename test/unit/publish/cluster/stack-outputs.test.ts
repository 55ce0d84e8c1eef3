import { UserError } from '../../../../src/core/errors';
import { parseStackOutputs } from '../../../../src/publish/cluster/stack-outputs';

const bucket = { modelRepository: 's3://bucket/models', region: 'eu-central-1' };
const kubeconfig = { apiVersion: 'v1', clusters: [], users: [{ name: 'me', user: { token: 'very-secret-token' } }] };
/** Outputs of a stack, and, but for the kubeconfig, what is made of them. */
const cluster = { kubeconfig, namespace: 'serving', podSelector: 'app=triton' };

test.each<[string, Record<string, unknown>, object]>([
  ['a stack with only a bucket', {}, {}],
  ['null as a missing output', { endpointUrl: null, kubeconfig: null }, {}],
  [
    'an endpoint and a cluster, and omits other outputs',
    { endpointUrl: 'http://127.0.0.1:9000', ...cluster, vpcId: 'vpc-1' },
    { endpointUrl: 'http://127.0.0.1:9000', cluster: { ...cluster, kubeconfig: JSON.stringify(kubeconfig) } },
  ],
  [
    'a kubeconfig that is text',
    { ...cluster, kubeconfig: 'apiVersion: v1\nkind: Config\n' },
    { cluster: { ...cluster, kubeconfig: 'apiVersion: v1\nkind: Config\n' } },
  ],
])('parseStackOutputs accepts %s', (_, outputs, expected) => {
  expect(parseStackOutputs('dev', { ...bucket, ...outputs })).toEqual({ ...bucket, ...expected });
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
