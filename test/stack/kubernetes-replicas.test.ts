import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { RbacAuthorizationV1Api, type CoreV1Api, type V1PolicyRule } from '@kubernetes/client-node';
import { Agent, fetch, request } from 'undici';
import { KubernetesReplicas, type KubernetesReplicaOptions } from '../../src/publish/cluster/kubernetes';
import type { ReplicaSource } from '../../src/publish/cluster/source';
import { whyNoGo } from '../../tools/toolchain/go';
import { describeUnless } from '../support/describe-unless';
import { ControlPlane } from '../support/control-plane';
import { Scratch } from '../support/temp-dir';
import { retriedOnConflict, until } from '../support/wait-for';

// The first build of the programs takes minutes.
const BUILD_MS = 30 * 60_000;

const namespace = 'serving';

const MAY_LIST = { apiGroups: [''], resources: ['pods'], verbs: ['list'] };
const MAY_FORWARD = { apiGroups: [''], resources: ['pods/portforward'], verbs: ['get', 'create'] };

describeUnless(whyNoGo(['kubernetes', 'kwok']), 'replicas of a cluster', () => {
  const scratch = new Scratch();
  const big = randomBytes(5_000_000);
  const connections = new Map<string, number>();
  let plane: ControlPlane;
  let core: CoreV1Api;
  let source: ReplicaSource;

  /** Starts a server in place of Triton, which returns its name, and sends and receives large bodies. */
  const serve = async (name: string): Promise<Server> => {
    const server = createServer((incoming, response) => {
      if (incoming.url === '/big') return response.end(big);
      let received = 0;
      incoming.on('data', (chunk: Buffer) => (received += chunk.length));
      incoming.on('end', () => response.end(JSON.stringify({ name, received })));
    });
    server.on('connection', () => connections.set(name, (connections.get(name) ?? 0) + 1));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    scratch.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    return server;
  };

  const open = (options: Partial<KubernetesReplicaOptions> = {}): ReplicaSource => {
    const opened = new KubernetesReplicas({
      kubeconfig: plane.access.kubeconfig(),
      namespace,
      selector: 'app=triton',
      ...options,
    });
    scratch.defer(() => opened.close());
    return opened;
  };

  const getUrl = async (name: string): Promise<string> => {
    const found = (await source.list()).find((replica) => replica.name === name);
    if (found === undefined) throw new Error(`no ${name}`);
    return found.url;
  };

  const setReady = (name: string, phase: string): Promise<unknown> =>
    retriedOnConflict(async () => {
      const body = await core.readNamespacedPod({ namespace, name });
      body.status = { phase, conditions: [{ type: 'Ready', status: 'True' }] };
      await core.replaceNamespacedPodStatus({ namespace, name, body });
    });

  const createPod = async (name: string, { app = 'triton', phase = 'Running', ports = [] as object[] } = {}) => {
    const containers = [{ name: 'triton', image: 'triton', ports }];
    const body = { metadata: { name, labels: { app } }, spec: { nodeName: 'node-0', containers } };
    await core.createNamespacedPod({ namespace, body: body as object });
    await setReady(name, phase);
  };

  const deletePod = (name: string): Promise<unknown> =>
    core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds: 0 });

  const grant = async (name: string, rules: V1PolicyRule[]): Promise<void> => {
    const rbac = plane.config.makeApiClient(RbacAuthorizationV1Api);
    const apiGroup = 'rbac.authorization.k8s.io';
    const roleRef = { apiGroup, kind: 'Role', name };
    const subjects = [{ apiGroup, kind: 'User', name }];
    await rbac.createNamespacedRole({ namespace, body: { metadata: { name }, rules } });
    await rbac.createNamespacedRoleBinding({ namespace, body: { metadata: { name }, roleRef, subjects } });
  };

  const ask = async (url: string): Promise<unknown> => (await fetch(url)).json();

  beforeAll(async () => {
    const users = ['publisher', 'lister', 'creator', 'unprivileged'];
    plane = await ControlPlane.start(scratch, { users, simulatePods: false });
    core = plane.client.core;
    await plane.addNode({ name: 'node-0' });
    await core.createNamespace({ body: { metadata: { name: namespace } } });
    await until('pods may be created', async () => {
      return (await core.listNamespacedServiceAccount({ namespace })).items.length > 0;
    });
    for (const name of ['triton-0', 'triton-1', 'triton-2'])
      await plane.forwardPod(namespace, name, ((await serve(name)).address() as AddressInfo).port);
    await plane.forwardPod(namespace, 'triton-silent', 1);
    await createPod('triton-0');
    await createPod('triton-1', { ports: [{ name: 'http', containerPort: 9000 }] });
    await createPod('other', { app: 'other' });
    await createPod('triton-done', { phase: 'Succeeded' });
    await grant('publisher', [MAY_LIST, MAY_FORWARD]);
    await grant('lister', [MAY_LIST]);
    await grant('creator', [MAY_LIST, { ...MAY_FORWARD, verbs: ['create'] }]);
    source = open();
  }, BUILD_MS);
  afterAll(() => scratch.clean());

  test('list gives each selected pod its own address', async () => {
    const replicas = await source.list();
    expect(replicas).toMatchObject([
      {
        name: 'triton-0',
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
        ready: true,
        tritonUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string,
      },
      { name: 'triton-1', url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/) as string, ready: true },
    ]);
    const answers = await Promise.all(replicas.map(({ url }) => ask(url)));
    expect(answers).toEqual([
      { name: 'triton-0', received: 0 },
      { name: 'triton-1', received: 0 },
    ]);
    expect(await source.list()).toEqual(replicas);
  });

  test('list adds pods that appear later and removes deleted ones', async () => {
    const before = await source.list();
    await createPod('triton-2');
    const during = await source.list();
    expect(during.slice(0, 2)).toEqual(before);
    const url = during[2]?.url ?? '';
    expect(await ask(url)).toEqual({ name: 'triton-2', received: 0 });
    await deletePod('triton-2');
    expect(await source.list()).toEqual(before);
    await expect(ask(url)).rejects.toThrow('fetch failed');
  });

  test('list gives a recreated pod with the same name another address', async () => {
    await createPod('triton-2');
    const first = await getUrl('triton-2');
    await deletePod('triton-2');
    await createPod('triton-2');
    expect(await getUrl('triton-2')).not.toBe(first);
    await deletePod('triton-2');
  });

  test('forwards transfer large bodies completely in both directions, in parallel', async () => {
    const [one, two] = await Promise.all([getUrl('triton-0'), getUrl('triton-1')]);
    const bodies = await Promise.all(
      [one, two, one, two].map(async (url) => Buffer.from(await (await fetch(`${url}/big`)).arrayBuffer())),
    );
    expect(bodies.map((body) => body.equals(big))).toEqual([true, true, true, true]);
    const response = await fetch(one, { method: 'POST', body: big });
    expect(await response.json()).toEqual({ name: 'triton-0', received: big.length });
  });

  test('forwards deliver everything to a slow reader', async () => {
    const url = await getUrl('triton-0');
    const { body } = await request(`${url}/big`);
    const chunks: Buffer[] = [];
    for await (const chunk of body) {
      if (chunks.length % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      chunks.push(chunk as Buffer);
    }
    expect(Buffer.concat(chunks).equals(big)).toBe(true);
  });

  test('forwards send many requests over one connection', async () => {
    const url = await getUrl('triton-0');
    const agent = new Agent({ connections: 1 });
    const before = connections.get('triton-0') ?? 0;
    for (let i = 0; i < 50; i += 1) {
      const { body } = await request(url, { dispatcher: agent });
      expect(await body.json()).toEqual({ name: 'triton-0', received: 0 });
    }
    expect((connections.get('triton-0') ?? 0) - before).toBe(1);
    await agent.close();
  });

  test('forwards carry many parallel connections, some of which are aborted', async () => {
    const url = await getUrl('triton-1');
    const breakOff = async (): Promise<void> => {
      const given = new AbortController();
      const { body } = await request(`${url}/big`, { signal: given.signal });
      body.once('data', () => given.abort());
      await body.arrayBuffer();
    };
    const results = await Promise.allSettled(
      Array.from({ length: 30 }, (_, i) => (i % 3 === 0 ? breakOff() : ask(url))),
    );
    expect(results.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).name))).toEqual(
      Array.from({ length: 30 }, (_, i) => (i % 3 === 0 ? 'AbortError' : { name: 'triton-1', received: 0 })),
    );
    expect(await ask(url)).toEqual({ name: 'triton-1', received: 0 });
  });

  test('forwards report a pod without a listening server', async () => {
    await createPod('triton-silent');
    const response = await fetch(await getUrl('triton-silent'));
    expect(response.status).toBe(502);
    expect(await response.text()).toMatch(/^port-forward to pod triton-silent: .*connection refused/);
    await deletePod('triton-silent');
  });

  test('list reports an invalid selector', async () => {
    await expect(open({ selector: 'app in' }).list()).rejects.toThrow(
      /cannot list pods app in in namespace serving .*HTTP 400/,
    );
  });

  test('the two documented permissions are sufficient', async () => {
    const replicas = await open({ kubeconfig: plane.access.kubeconfig('publisher') }).list();
    expect(await ask(replicas[0]?.url ?? '')).toEqual({ name: 'triton-0', received: 0 });
  });

  test('list reports the permissions that a user without them needs', async () => {
    await expect(open({ kubeconfig: plane.access.kubeconfig('unprivileged') }).list()).rejects.toMatchObject({
      name: 'UserError',
      message:
        'cannot list pods app=triton in namespace serving: not permitted (HTTP 403: pods is forbidden: User "unprivileged" cannot list ' +
        'resource "pods" in API group "" in the namespace "serving")',
      hint:
        'grant the user of context "unprivileged" a Role in namespace serving: verb "list" on "pods", verbs "get" and ' +
        '"create" on "pods/portforward"',
    });
  });

  // A WebSocket begins with a GET, so the verb "create", which older clients need, is not sufficient.
  test.each(['lister', 'creator'])(
    'user %s without permission to forward ports gets an error before a connection',
    async (user) => {
      await expect(open({ kubeconfig: plane.access.kubeconfig(user) }).list()).rejects.toMatchObject({
        name: 'UserError',
        message: 'cannot forward a port of pod triton-0 in namespace serving: not permitted (HTTP 403)',
        hint: expect.stringContaining('"create" on "pods/portforward"') as string,
      });
    },
  );

  test('list reports an unknown token without printing it', async () => {
    await expect(open({ kubeconfig: plane.access.kubeconfig('stranger') }).list()).rejects.toMatchObject({
      name: 'UserError',
      message: `cannot list pods app=triton in namespace serving: ${plane.access.server} rejects the credentials of context "stranger" (HTTP 401)`,
    });
  });

  test('list reports an unreachable cluster and a different cluster', async () => {
    const config = JSON.parse(plane.access.kubeconfig()) as {
      clusters: { cluster: { server: string; 'certificate-authority-data'?: string } }[];
    };
    const entry = config.clusters[0]?.cluster;
    if (entry === undefined) throw new Error('no cluster');
    delete entry['certificate-authority-data'];
    await expect(open({ kubeconfig: JSON.stringify(config) }).list()).rejects.toThrow(
      /at https:\/\/.*CERT|at https:\/\/.*certificate/,
    );
    entry.server = 'https://127.0.0.1:1';
    await expect(open({ kubeconfig: JSON.stringify(config) }).list()).rejects.toThrow(
      /^cannot list pods app=triton in namespace serving at https:\/\/127\.0\.0\.1:1: ECONNREFUSED/,
    );
  });

  test('close ends all forwards', async () => {
    const closing = open();
    const [first] = await closing.list();
    await closing.close();
    await expect(ask(first?.url ?? '')).rejects.toThrow('fetch failed');
    await expect(closing.list()).rejects.toThrow('closed');
  });
});
