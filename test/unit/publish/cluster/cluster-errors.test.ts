import { UserError } from '../../../../src/core/errors';
import { explainCluster } from '../../../../src/publish/cluster/cluster-errors';

const call = {
  what: 'list pods app=triton in namespace serving',
  server: 'https://cluster.example',
  context: 'prod',
  namespace: 'serving',
};
const failure = (fields: object, message = 'it failed'): Error => Object.assign(new Error(message), fields);
const status = (code: number, message: string): Error =>
  failure({ code, body: JSON.stringify({ kind: 'Status', message }) });

test.each([
  ['https://A1B2C3.gr7.us-east-1.eks.amazonaws.com', true],
  ['https://A1B2C3.yl4.cn-north-1.eks.amazonaws.com.cn', true],
  ['https://cluster.example', false],
])('explainCluster names access entries for a 401 of %s: %s', (server, isNamed) => {
  const { hint } = explainCluster({ ...call, server }, status(401, 'Unauthorized'));
  expect(hint).toContain('sign in again');
  expect(hint?.includes('aws eks list-access-entries')).toBe(isNamed);
});

const CANNOT = 'cannot list pods app=triton in namespace serving';

test.each([
  [
    'not signed in',
    status(401, 'Unauthorized'),
    `${CANNOT}: https://cluster.example rejects the credentials of context "prod" (HTTP 401: Unauthorized)`,
    /sign in again/,
  ],
  [
    'not permitted',
    status(403, 'pods is forbidden'),
    `${CANNOT}: not permitted (HTTP 403: pods is forbidden)`,
    /context "prod" .* namespace serving: verb "list" on "pods", verbs "get" and "create" on "pods\/portforward"/,
  ],
  [
    'another status',
    status(500, 'etcd is down'),
    `${CANNOT} at https://cluster.example (HTTP 500: etcd is down)`,
    null,
  ],
  [
    'an answer that is no Status',
    failure({ code: 502, body: '<html>' }),
    `${CANNOT} at https://cluster.example (HTTP 502)`,
    null,
  ],
  [
    'nothing listens',
    failure({ code: 'ECONNREFUSED' }),
    `${CANNOT} at https://cluster.example: ECONNREFUSED: it failed`,
    /VPN/,
  ],
  [
    'another certificate',
    failure({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'self-signed certificate'),
    `${CANNOT} at https://cluster.example: DEPTH_ZERO_SELF_SIGNED_CERT: self-signed certificate`,
    /create the kubeconfig again/,
  ],
  [
    'the program to sign in with is missing',
    failure({ code: 'ENOENT', syscall: 'spawn aws', path: 'aws' }, 'spawn aws ENOENT'),
    `${CANNOT}: the kubeconfig signs in with "aws", which failed to start (ENOENT)`,
    /install "aws"/,
  ],
  ['anything else', failure({}, 'odd'), `${CANNOT} at https://cluster.example: odd`, /VPN/],
])('explainCluster explains: %s', (_, error, message, hint) => {
  const explained = explainCluster(call, error);
  expect(explained.message).toBe(message);
  if (hint === null) expect(explained.hint).toBeUndefined();
  else expect(explained.hint).toMatch(hint);
});

test('explainCluster returns a UserError as it is', () => {
  const error = new UserError('no kubeconfig');
  expect(explainCluster(call, error)).toBe(error);
});
