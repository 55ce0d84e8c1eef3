import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { KubernetesReplicas } from '../../../../src/publish/cluster/kubernetes';
import { PodForward } from '../../../../src/publish/cluster/pod-forward';
import type { ReplicaSource } from '../../../../src/publish/cluster/source';
import { listenOnLoopback } from '../../../support/loopback';

/** How the API server answers one request for the pods; `close`: not at all. */
type Answer = number | 'close';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  jest.restoreAllMocks();
  for (const close of closing.splice(0)) await close();
});

/**
 * Replicas of an API server that gives one answer after the other to requests for the pods, and from then on 200.
 * @param items the pods
 */
async function getReplicas(
  answers: Answer[],
  items: object[] = [],
): Promise<{ source: ReplicaSource; asked: () => number }> {
  let asked = 0;
  const server = createServer((request, response) => {
    if (request.url?.includes('/portforward') === true) return void response.writeHead(500).end();
    const answer = answers[asked++] ?? 200;
    if (answer === 'close') return request.socket.destroy();
    const body = answer === 200 ? { kind: 'PodList', apiVersion: 'v1', items } : { kind: 'Status', message: 'no' };
    response.writeHead(answer, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const { port, stop } = await listenOnLoopback(server);
  const url = `http://127.0.0.1:${port}`;
  const kubeconfig = JSON.stringify({
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    clusters: [{ name: 'test', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'test', user: { token: 'token' } }],
  });
  const source = new KubernetesReplicas({ kubeconfig, namespace: 'serving', selector: 'app=triton', retryMs: 10 });
  closing.push(stop, () => source.close());
  return { source, asked: () => asked };
}

test('list retries after 500, 429 and a closed connection if the cluster answered before', async () => {
  const { source, asked } = await getReplicas([200, 500, 429, 'close']);
  expect(await source.list()).toEqual([]);
  expect(await source.list()).toEqual([]);
  expect(asked()).toBe(5);
});

test.each([
  { title: 'a refusal', answers: [200, 403], message: /HTTP 403/, asked: 2 },
  { title: 'four failures in a row', answers: [200, 500, 503, 500, 500], message: /HTTP 500/, asked: 5 },
])('list reports $title', async ({ answers, message, asked: expected }) => {
  const { source, asked } = await getReplicas(answers);
  await source.list();
  await expect(source.list()).rejects.toThrow(message);
  expect(asked()).toBe(expected);
});

test('list does not retry if the cluster never answered', async () => {
  const { source, asked } = await getReplicas([500]);
  await expect(source.list()).rejects.toThrow(/HTTP 500/);
  expect(asked()).toBe(1);
});

const POD = { metadata: { name: 'triton-0', uid: 'uid-0' }, spec: { containers: [{ name: 'triton' }] }, status: {} };

test('list tries again to open a port-forward that could not listen', async () => {
  const { source } = await getReplicas([], [POD]);
  const listen = jest.spyOn(PodForward, 'listen').mockRejectedValueOnce(new Error('listen EMFILE'));
  await expect(source.list()).rejects.toThrow('listen EMFILE');
  expect(await source.list()).toMatchObject([{ name: 'triton-0', url: expect.stringMatching(/^http:/) as string }]);
  await source.list();
  // One that failed, then those of the agent and of Triton.
  expect(listen).toHaveBeenCalledTimes(3);
});

test('close does not fail because of a port-forward that could not listen', async () => {
  const { source } = await getReplicas([], [POD]);
  jest.spyOn(PodForward, 'listen').mockRejectedValueOnce(new Error('listen EMFILE'));
  await expect(source.list()).rejects.toThrow('listen EMFILE');
  await source.close();
});

test('list closes the port-forwards of pods that are gone', async () => {
  const pods: object[] = [POD];
  const { source } = await getReplicas([], pods);
  const [replica] = await source.list();
  const port = Number(new URL(replica?.url ?? '').port);
  pods.pop();
  expect(await source.list()).toEqual([]);
  const socket = connect(port, '127.0.0.1');
  await expect(once(socket, 'connect')).rejects.toThrow('ECONNREFUSED');
});

test('list leaves no timer that would keep the command running', async () => {
  const { source } = await getReplicas([]);
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  await source.list();
  expect(timers()).toBeLessThanOrEqual(before);
});

const pod = (name: string, status: object = {}, metadata: object = {}): object => ({
  metadata: { name, uid: `uid of ${name}`, ...metadata },
  spec: { containers: [{ name: 'triton' }] },
  status,
});

test('list sorts by name, omits pods that end, and reports whether a pod is Ready', async () => {
  const ready = (status: string): object => ({ phase: 'Running', conditions: [{ type: 'Ready', status }] });
  const { source } = await getReplicas(
    [],
    [
      pod('c', ready('Unknown')),
      pod('b', ready('True')),
      pod('a'),
      pod('failed', { phase: 'Failed' }),
      pod('done', { phase: 'Succeeded' }),
      pod('ending', ready('True'), { deletionTimestamp: '2026-11-29T10:00:00Z' }),
    ],
  );
  const found = (await source.list()).map(({ name, uid, ready }) => [name, uid, ready]);
  expect(found).toEqual([
    ['a', 'uid of a', false],
    ['b', 'uid of b', true],
    ['c', 'uid of c', false],
  ]);
});
