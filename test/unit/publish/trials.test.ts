import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bake } from '../../../src/publish/bake';
import { BAKE_DEFAULTS } from '../../../src/release/bake';
import type { Manifest } from '../../../src/release/manifest';
import { AgentClient, type AgentAddress, type AgentSource } from '../../../src/publish/agent-client';
import { Trials, type TrialOptions } from '../../../src/publish/trials';
import { listenOnLoopback } from '../../support/loopback';

/** How an agent answers. */
type Answer = (method: string, body: Record<string, unknown>) => { status?: number; text: string };

const stops: (() => Promise<void>)[] = [];
let answer: Answer;
let address: AgentAddress;

/** Starts an agent that answers as `getAnswer` says. */
async function startAgent(uid: string, getAnswer: Answer): Promise<AgentAddress> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      const { status = 200, text } = getAnswer(
        request.method ?? '',
        body === '' ? {} : (JSON.parse(body) as Record<string, unknown>),
      );
      response.writeHead(status).end(text);
    });
  });
  const { port, stop } = await listenOnLoopback(server);
  stops.push(stop);
  return { name: `pod-${uid}`, uid, url: `http://127.0.0.1:${port}` };
}

beforeAll(async () => {
  address = await startAgent('a', (method, body) => answer(method, body));
});
afterAll(() => Promise.all(stops.map((stop) => stop())));

const agentsOf = (list: () => readonly AgentAddress[]): AgentSource => ({
  describe: () => 'pods',
  list: () => Promise.resolve([...list()]),
});

function makeTrials(addresses: AgentAddress[] = [address], options: Partial<TrialOptions> = {}): Trials {
  return new Trials(
    { id: 'r2', manifestSha256: '', base: 1, secret: 's' },
    {
      agents: agentsOf(() => addresses),
      ...{ runId: 'r2', by: 'ann', ttlSeconds: 60, timeoutMs: 5000, pollMs: 5, ...options },
    },
  );
}

const run = (): Promise<string[]> => {
  const trials = makeTrials();
  return trials.run().finally(() => trials.stop());
};

test.each([
  ['text', 502, 'port-forward to pod-a: no connection\n', 'port-forward to pod-a: no connection'],
  ['a JSON text', 502, '"no"', '"no"'],
  ['a long text', 503, 'x'.repeat(1000), 'x'.repeat(300)],
])('AgentClient treats %s as no answer', async (_, status, text, reason) => {
  answer = () => ({ status, text });
  await expect(new AgentClient(address).getState()).rejects.toMatchObject({
    ...{ status: 0, message: `the agent of pod-a does not answer: ${reason}` },
  });
});

test('Trials says what to do after another publisher has committed', async () => {
  answer = () => ({ status: 410, text: JSON.stringify({ error: 'head.json is at generation 2, after 1' }) });
  await expect(run()).rejects.toMatchObject({
    hint: expect.stringContaining('run the command again') as string,
  });
});

test.each(['overtaken', 'expired'])('Trials says what to do after a trial is %s', async (outcome) => {
  let id: unknown;
  answer = (method, body) => {
    if (method === 'POST') ({ id } = body);
    const state = {
      stateTag: 't',
      ready: true,
      release: 'r1',
      trial: null,
      lastTrial: id === undefined ? null : { id, outcome },
    };
    return { text: JSON.stringify(state) };
  };
  await expect(run()).rejects.toMatchObject({
    message: `pod-a does not serve the release: ${outcome === 'expired' ? 'this command did not renew the trial in time' : outcome}`,
    hint: expect.stringContaining('run the command again') as string,
  });
});

describe('several replicas', () => {
  /** Requests for a trial, and trials that were served, in order. */
  let events: string[];
  /** Uids of replicas whose trials were renewed, and ends of trials that did not reach them. */
  let renewals: string[];
  beforeEach(() => {
    events = [];
    renewals = [];
  });

  /**
   * An agent that serves a release when it was asked a few times for its state, or refuses it, or never ends. It goes back
   * in the same time, unless it stays.
   */
  function startReplica(uid: string, end: 'served' | 'failed' | 'never' | 'stays'): Promise<AgentAddress> {
    let id: unknown;
    let reads = 0;
    let back = 0;
    return startAgent(uid, (method, body) => {
      if (method === 'POST') {
        ({ id } = body);
        const place = body['outside'] === true ? ' outside' : body['alone'] === true ? ' alone' : '';
        events.push(`asked ${uid}${place}`);
      }
      if (method === 'PUT') renewals.push(uid);
      if (method === 'DELETE' && end === 'stays') {
        renewals.push(`ended ${uid}`);
        return { status: 503, text: 'no connection' };
      }
      if (method === 'DELETE' && id !== undefined) {
        id = undefined;
        events.push(`ended ${uid}`);
        back = 1;
      }
      if (back > 0 && method === 'GET' && (back += 1) > 4) {
        back = 0;
        events.push(`home ${uid}`);
      }
      if (id !== undefined && method === 'GET') reads += 1;
      const isOver = id !== undefined && reads > 3 && end !== 'never';
      if (isOver && reads === 4 && method === 'GET') events.push(`${end === 'failed' ? end : 'served'} ${uid}`);
      const hasFailed = isOver && end === 'failed';
      const release = back > 0 ? null : isOver && !hasFailed ? 'r2' : 'r1';
      const phase = isOver ? 'served' : 'loading';
      const trial = id === undefined || hasFailed ? null : { id, release: 'r2', leftSeconds: 60, phase };
      const lastTrial = hasFailed ? { id, outcome: 'failed', reason: 'no memory' } : null;
      return { text: JSON.stringify({ stateTag: 't', ready: true, release, trial, lastTrial, statistics: [] }) };
    });
  }

  /** The largest number of replicas that loaded the release at a time, and how many were served before. */
  function loadedAtOnce(): { first: number; later: number } {
    const most = { first: 0, later: 0 };
    let loading = 0;
    let served = 0;
    for (const event of events) {
      loading += event.startsWith('asked') ? 1 : -1;
      if (event.startsWith('served')) served += 1;
      const wave = served === 0 ? 'first' : 'later';
      most[wave] = Math.max(most[wave], loading);
    }
    return most;
  }

  test.each([
    { replicas: 1, later: 0, first: 'asked p0 alone' },
    { replicas: 2, later: 1, first: 'asked p0 outside' },
    { replicas: 7, later: 1, first: 'asked p0 outside' },
    { replicas: 13, later: 3, first: 'asked p0 outside' },
  ])('$replicas try a release: the first alone ($first), then $later at a time', async ({ replicas, later, first }) => {
    const names = Array.from({ length: replicas }, (_, index) => `p${index}`);
    const trials = makeTrials(await Promise.all(names.map((name) => startReplica(name, 'served'))));
    expect(await trials.run().finally(() => trials.stop())).toEqual(names.map((name) => `pod-${name}`));
    expect(loadedAtOnce()).toEqual({ first: 1, later });
    expect(events.filter((event) => / outside| alone/.test(event))).toEqual([first]);
  });

  describe('with a bake', () => {
    const RULES = { ...BAKE_DEFAULTS, minutes: 0.01, withoutTraffic: 'continue' } as const;
    const models = { m: { served: [1] } } as unknown as Manifest['models'];
    const makeBake = (withoutTraffic: 'continue' | 'stop'): Bake =>
      new Bake({ ...RULES, withoutTraffic }, { before: { id: 'r1', models }, next: { id: 'r2', models } }, ['m']);

    test('no second replica is asked before its end', async () => {
      const bake = makeBake('continue');
      const addresses = await Promise.all(['p0', 'p1', 'p2'].map((name) => startReplica(name, 'served')));
      const onBake = (): unknown => events.push(bake.isOver ? 'over' : 'baking');
      const trials = makeTrials(addresses, { bake, onBake });
      await trials.run().finally(() => trials.stop());
      expect(events.filter((event, i) => event !== events[i - 1])).toEqual([
        ...[
          'asked p0 outside',
          'served p0',
          'baking',
          'over',
          'asked p1',
          'served p1',
          'over',
          'asked p2',
          'served p2',
        ],
        'over',
      ]);
    });

    test('one that was not judged ends the release before a second replica is asked', async () => {
      const addresses = await Promise.all(['p0', 'p1'].map((name) => startReplica(name, 'served')));
      const trials = makeTrials(addresses, { bake: makeBake('stop') });
      await expect(trials.run()).rejects.toThrow(
        'the release could not be compared with the one before it: m answered 0',
      );
      trials.stop();
      expect(events).toEqual(['asked p0 outside', 'served p0']);
    });

    test('the only replica is not asked', async () => {
      const trials = makeTrials([await startReplica('p0', 'served')], { bake: makeBake('stop') });
      await expect(trials.run()).rejects.toThrow('only pod-p0 gets requests');
      trials.stop();
      expect(events).toEqual([]);
    });

    test('a replica that goes back ends the release with its reason', async () => {
      let id: unknown;
      let reads = 0;
      const lost = await startAgent('p0', (method, body) => {
        if (method === 'POST') ({ id } = body);
        reads += method === 'GET' ? 1 : 0;
        const hasEnded = reads > 6;
        const trial = id === undefined || hasEnded ? null : { id, release: 'r2', leftSeconds: 60, phase: 'served' };
        const lastTrial = hasEnded ? { id, outcome: 'refused', reason: 'Triton no longer serves m' } : null;
        const release = trial === null ? 'r1' : 'r2';
        return { text: JSON.stringify({ stateTag: 't', ready: true, release, trial, lastTrial, statistics: [] }) };
      });
      const bake = new Bake(
        { ...RULES, minutes: 60 },
        { before: { id: 'r1', models }, next: { id: 'r2', models } },
        [],
      );
      const trials = makeTrials([lost, await startReplica('p1', 'served')], { bake });
      await expect(trials.run()).rejects.toThrow('pod-p0 does not serve the release: Triton no longer serves m');
      trials.stop();
      expect(events).toEqual([]);
      expect(bake.record).toMatchObject({ outcome: 'not judged', reason: 'Triton no longer serves m' });
    });
  });

  test('a replica is asked when the one before gets requests again', async () => {
    const addresses = await Promise.all(['p0', 'p1'].map((name) => startReplica(name, 'served')));
    const trials = makeTrials(addresses, {
      agents: agentsOf(() => {
        // The first one is not ready until it was listed three times after it served the release.
        const since = events.filter((event) => event === 'served p0' || event === 'listed p0').length;
        if (since > 0 && since < 4) events.push('listed p0');
        const isReady = since === 0 || since >= 4;
        return addresses.map((one) => ({ ...one, ready: one.uid === 'p0' ? isReady : true }));
      }),
    });
    await trials.run().finally(() => trials.stop());
    const listed = ['listed p0', 'listed p0', 'listed p0'];
    expect(events).toEqual(['asked p0 outside', 'served p0', ...listed, 'asked p1', 'served p1']);
  });

  test('a replica that never gets requests again ends the publish', async () => {
    const addresses = await Promise.all(['p0', 'p1'].map((name) => startReplica(name, 'served')));
    const trials = makeTrials(addresses, {
      timeoutMs: 300,
      agents: agentsOf(() => addresses.map((one) => ({ ...one, ready: !events.includes(`served ${one.uid}`) }))),
    });
    await expect(trials.run()).rejects.toThrow(/^pod-p0 did not load .* within .*: it is served, but not ready$/);
    trials.stop();
    expect(events).toEqual(['asked p0 outside', 'served p0']);
  });

  test('a second replica that does not answer gets no requests, so the first one stays in the Service', async () => {
    const dead = { name: 'dead', uid: 'dead', url: 'http://127.0.0.1:9' };
    const trials = makeTrials([await startReplica('p0', 'served'), dead], { firstMs: 200 });
    await expect(trials.run()).rejects.toThrow('the agent of dead does not answer');
    trials.stop();
    expect(events).toEqual(['asked p0 alone', 'served p0']);
  });

  test('replicas go back some at a time', async () => {
    const names = ['p0', 'p1', 'p2'];
    const trials = makeTrials(await Promise.all(names.map((name) => startReplica(name, 'served'))));
    await trials.run();
    events = [];
    await trials.end();
    expect(events).toEqual(['ended p0', 'home p0', 'ended p1', 'home p1', 'ended p2', 'home p2']);
  });

  test('of replicas that are not ready, one whose agent reports a problem tries the release', async () => {
    const problem = 'cannot serve release r1: no memory';
    let id: unknown;
    const broken = await startAgent('p1', (method, body) => {
      if (method === 'POST') ({ id } = body);
      const trial = id === undefined ? null : { id, release: 'r2', leftSeconds: 60, phase: 'served' };
      const release = id === undefined ? null : 'r2';
      return {
        text: JSON.stringify({ stateTag: 't', ready: id !== undefined, release, trial, lastTrial: null, problem }),
      };
    });
    const starting = await startAgent('p0', () => ({ text: JSON.stringify({ stateTag: 't', problem: null }) }));
    const trials = makeTrials([], {
      agents: agentsOf(() => [starting, broken].map((one) => ({ ...one, ready: one === broken && id !== undefined }))),
    });
    expect(await trials.run().finally(() => trials.stop())).toEqual(['pod-p1']);
  });

  test('if no replica can try a release, the publish ends after the first time limit, not after that of the loads', async () => {
    const starting = await startAgent('p0', () => ({ text: JSON.stringify({ stateTag: 't', problem: null }) }));
    const deaf = { name: 'pod-p1', uid: 'p1', url: 'http://127.0.0.1:9' };
    const refuses = await startAgent('p2', (method) =>
      method === 'POST'
        ? { status: 503, text: JSON.stringify({ error: 'Triton has not answered yet' }) }
        : { text: JSON.stringify({ stateTag: 't', problem: null }) },
    );
    const ends = (addresses: AgentAddress[], ready: boolean): Promise<unknown> => {
      const agents = agentsOf(() => addresses.map((one) => ({ ...one, ready })));
      const trials = makeTrials([], { agents, firstMs: 200, timeoutMs: 3_600_000 });
      return trials.run().finally(() => trials.stop());
    };
    await expect(ends([starting, deaf], false)).rejects.toThrow(
      /^no replica is ready: pod-p0 is starting; the agent of pod-p1 does not answer: /,
    );
    await expect(ends([deaf], true)).rejects.toThrow('the agent of pod-p1 does not answer');
    await expect(ends([refuses], true)).rejects.toThrow('Triton has not answered yet');
  });

  const startAll = (ends: readonly Parameters<typeof startReplica>[1][]): Promise<AgentAddress[]> =>
    Promise.all(ends.map((end, index) => startReplica(`p${index}`, end)));
  const asked = (): string[] => events.filter((event) => event.startsWith('asked'));

  test('no replica is asked any more after one of them has refused', async () => {
    // Three are asked at a time.
    const trials = makeTrials(await startAll(['served', 'failed', ...Array<'never'>(10).fill('never')]));
    await expect(trials.run()).rejects.toMatchObject({ message: 'pod-p1 does not serve the release: no memory' });
    expect(asked()).toEqual(['asked p0 outside', 'asked p1', 'asked p2', 'asked p3']);
    await trials.end();
    await sleep(100);
    expect(asked()).toHaveLength(4);
  });

  test('a trial whose end does not reach the replica is not renewed, so that it ends by itself', async () => {
    const trials = makeTrials(await startAll(['stays', 'served']), {
      ttlSeconds: 0.3,
      leftMs: 0,
      timeoutMs: 2000,
    });
    await trials.run();
    events = [];
    await expect(trials.end()).rejects.toMatchObject({
      message: 'it is not confirmed that pod-p0 went back to the release before',
    });
    expect(renewals.slice(renewals.indexOf('ended p0'))).toEqual(expect.arrayContaining(['p1']));
    expect(renewals.slice(renewals.indexOf('ended p0'))).not.toContain('p0');
    expect(events).toEqual(['ended p1', 'home p1']);
  });
});
