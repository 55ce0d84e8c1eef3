import { setTimeout as sleep } from 'node:timers/promises';
import { generateLoad, percentile, WARM_UP_REQUESTS } from '../../../src/infer/load';

it.each([
  [50, 5],
  [95, 10],
  [99, 10],
  [10, 1],
  [11, 2],
  [100, 10],
])('percentile %d of ten values is one of them', (percent, value) => {
  expect(percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], percent)).toBe(value);
});

it('percentile of no values is NaN', () => {
  expect(percentile([], 50)).toBeNaN();
});

it.each([
  { name: 'keeps `concurrency` requests in flight', options: { seconds: 0.1, warmUpMs: 0 } },
  {
    name: 'has at most `concurrency` requests in flight at a rate',
    options: { rate: 1000, seconds: 0.1, warmUpMs: 10 },
  },
])('generateLoad $name', async ({ options }) => {
  let inFlight = 0;
  let most = 0;
  const send = async (): Promise<void> => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    await sleep(30);
    inFlight -= 1;
  };
  const { requests, errors, requestsPerSecond, seconds } = await generateLoad(send, { ...options, concurrency: 3 });
  expect(most).toBe(3);
  expect(errors).toBe(0);
  expect(requestsPerSecond * seconds).toBeCloseTo(requests);
});

it('generateLoad counts failures by their message, and not as requests', async () => {
  const seen = { ok: 0, busy: 0 };
  let sent = 0;
  const send = async (): Promise<void> => {
    await sleep(1);
    // Requests of the warm-up are not counted.
    if ((sent += 1) <= WARM_UP_REQUESTS) return;
    const kind = seen.ok > seen.busy ? 'busy' : 'ok';
    seen[kind] += 1;
    if (kind === 'busy') throw new Error('busy');
  };
  const result = await generateLoad(send, { concurrency: 1, seconds: 0.2, warmUpMs: 0 });
  expect(result.messages).toEqual({ busy: seen.busy });
  expect(result.errors).toBe(seen.busy);
  expect(result.requests).toBe(seen.ok);
  expect(seen.busy).toBeGreaterThan(0);
});

it('generateLoad ignores failed requests of the warm-up if others are answered', async () => {
  let sent = 0;
  const send = async (): Promise<void> => {
    await sleep(1);
    if ((sent += 1) === 1) throw new Error('busy');
  };
  const result = await generateLoad(send, { concurrency: 1, seconds: 0.05, warmUpMs: 0 });
  expect(result).toMatchObject({ errors: 0, messages: {} });
  expect(result.requests).toBeGreaterThan(0);
});

it('generateLoad throws if every request of the warm-up fails', async () => {
  await expect(generateLoad(() => Promise.reject(new Error('no')), { concurrency: 2, seconds: 10 })).rejects.toThrow(
    'no',
  );
});

describe('generateLoad with a rate', () => {
  const RATE = { rate: 100, seconds: 0.1, warmUpMs: 0 };

  it('sends each request that is due', async () => {
    const { requests, unsent, errors } = await generateLoad(() => Promise.resolve(), { ...RATE, concurrency: 64 });
    expect([requests, unsent, errors]).toEqual([10, 0, 0]);
  });

  it('counts the latency of a request from the time at which it was due', async () => {
    let sent = 0;
    const send = async (): Promise<void> => {
      if ((sent += 1) === WARM_UP_REQUESTS + 1) await sleep(80);
    };
    const { p50 } = await generateLoad(send, { ...RATE, concurrency: 1 });
    // The requests that were due in the meantime waited for 70, 60, 50, ... ms.
    expect(p50).toBeGreaterThan(20);
  });

  it('reports requests that were not sent, because all permitted requests were in flight', async () => {
    let sent = 0;
    const send = async (): Promise<void> => {
      if ((sent += 1) > WARM_UP_REQUESTS) await sleep(150);
    };
    const result = await generateLoad(send, { ...RATE, concurrency: 2 });
    expect(result.requests + result.unsent).toBe(10);
    expect(result.unsent).toBeGreaterThan(0);
  });
});
