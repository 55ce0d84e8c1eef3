import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AgentClient, type AgentAddress } from '../../../src/publish/trial/agent-client';
import { Trials } from '../../../src/publish/trial/trials';

/** An agent that answers as `answer` says. */
type Answer = (method: string, body: Record<string, unknown>) => { status?: number; text: string };

let server: Server;
let answer: Answer;
let address: AgentAddress;

beforeAll(async () => {
  server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      const { status = 200, text } = answer(
        request.method ?? '',
        body === '' ? {} : (JSON.parse(body) as Record<string, unknown>),
      );
      response.writeHead(status).end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  address = { name: 'pod-a', uid: 'a', url: `http://127.0.0.1:${port}` };
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

const run = (): Promise<string[]> => {
  const trials = new Trials(
    { id: 'r2', manifestSha256: '', base: 1, secret: 's' },
    {
      agents: { describe: () => 'pods', list: () => Promise.resolve([address]) },
      ...{ runId: 'r2', by: 'ann', ttlSeconds: 60, timeoutMs: 5000, pollMs: 5 },
    },
  );
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

test('AgentClient says what to do after another publisher has committed', async () => {
  answer = () => ({ status: 410, text: JSON.stringify({ error: 'head.json is at generation 2, after 1' }) });
  await expect(new AgentClient(address).getState()).rejects.toMatchObject({
    hint: expect.stringContaining('run the command again') as string,
  });
});

test.each(['overtaken', 'expired'])('Trials says what to do after a trial is %s', async (outcome) => {
  let id: unknown;
  answer = (method, body) => {
    if (method === 'POST') ({ id } = body);
    const state = { stateTag: 't', release: 'r1', trial: null, lastTrial: id === undefined ? null : { id, outcome } };
    return { text: JSON.stringify(state) };
  };
  await expect(run()).rejects.toMatchObject({
    message: `pod-a does not serve the release: ${outcome}`,
    hint: expect.stringContaining('run the command again') as string,
  });
});

test('Trials asks again if the agent ends the trial soon, however long the lease is', async () => {
  let id: unknown;
  let renewals = 0;
  answer = (method, body) => {
    if (method === 'POST') ({ id } = body);
    if (method === 'PUT') renewals += 1;
    const leftSeconds = renewals < 3 ? 10 : 60;
    const trial = id === undefined ? null : { id, release: 'r2', leftSeconds, phase: 'served' };
    return { text: JSON.stringify({ stateTag: 't', release: 'r2', trial, lastTrial: null }) };
  };
  expect(await run()).toEqual(['pod-a']);
  expect(renewals).toBe(3);
});
