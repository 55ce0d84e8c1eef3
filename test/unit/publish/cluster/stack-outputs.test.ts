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

const getProblems = (outputs: Record<string, unknown>): string[] => {
  try {
    parseStackOutputs('dev', outputs);
  } catch (error) {
    return (error as UserError).problems.map(({ field, message }) => `${field} ${message}`);
  }
  return [];
};

test.each<[string, Record<string, unknown>, string[]]>([
  [
    'all problems at once',
    { endpointUrl: ' ', region: 7 },
    ['output modelRepository is missing', 'output region is not a text', 'output endpointUrl is not a text'],
  ],
  [
    'outputs of a cluster that lacks others',
    { ...bucket, podSelector: 'app=triton' },
    ['output kubeconfig is missing', 'output namespace is missing'],
  ],
  [
    'a secret of the wrong type without its value',
    { ...bucket, ...cluster, kubeconfig: ['very-secret-token'] },
    ['output kubeconfig is not a text'],
  ],
])('parseStackOutputs reports %s', (_, outputs, problems) => {
  expect(getProblems(outputs)).toEqual(problems);
});
