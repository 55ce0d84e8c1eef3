import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readReport } from '../../../tools/bench/client';
import { compareRates, median, medianRatio, rounds } from '../../../tools/bench/compare';
import { summarize } from '../../../tools/bench/preview';
import { countRequests } from '../../../tools/bench/sync-environment';
import { getBest, evaluate, type Measurement } from '../../../tools/bench/sync-report';
import { changeLabels, makeRepository, modelName } from '../../../tools/bench/sync-repository';
import { SCENARIOS } from '../../../tools/bench/sync-scenarios';
import { syncTools } from '../../../tools/bench/tools';
import { readRepository } from '../../../src/model';
import { Scratch } from '../../support/temp-dir';

describe('compare', () => {
  test('rounds starts each round with another entry and does not count the first round', async () => {
    const order: string[] = [];
    const entry = (name: string): [string, () => Promise<string>] => [name, async () => name];
    const results = await rounds(new Map(['a', 'b', 'c'].map(entry)), 2, (round, name) =>
      order.push(`${round}${name}`),
    );
    expect(order).toEqual(['0a', '0b', '0c', '1b', '1c', '1a', '2c', '2a', '2b']);
    expect([...results.values()]).toEqual([['a', 'a'], ['b', 'b'], ['c', 'c']]); // prettier-ignore
  });

  test('median of even and odd counts; medianRatio compares values of the same round', () => {
    expect([median([3, 1, 2]), median([4, 1, 3, 2])]).toEqual([2, 2.5]);
    expect(medianRatio([1, 30, 1], [2, 60, 2])).toBe(0.5);
    expect(medianRatio([1], [])).toBeNaN();
  });

  test('compareRates gives the first entry the ratio 1', async () => {
    const ways = { a: async () => undefined, b: async () => undefined };
    const [first, second] = await compareRates(ways, 8, 2);
    expect([first?.name, first?.ratio, second?.rates.length]).toEqual(['a', 1, 2]);
  });
});

test('summarize subtracts the start of the providers in each round', () => {
  const samples = (...seconds: number[]) => seconds.map((one) => ({ seconds: one + 1, fromProgramSeconds: one }));
  const rows = { empty: samples(1, 2, 1), providers: samples(3, 5, 1), staging: samples(4, 8, 2) };
  const result = summarize(new Map(Object.entries(rows)));
  expect(result.beyondProviders).toEqual({ stagingSeconds: 2, emptySeconds: 1, ratio: 2 });
  expect(result.whole).toEqual({ stagingSeconds: 3, emptySeconds: 2, ratio: 1.5 });
  expect(result.overProviders).toEqual({ stagingSeconds: 5, providersSeconds: 4, ratio: 1.5 });
});

test("readReport reads perf_analyzer's table and rejects others", () => {
  const report = 'Concurrency,Inferences/Second,p50 latency,p99 latency\n8,1234.5,2500,4000,\n';
  expect(readReport(report)).toEqual({ requestsPerSecond: 1234.5, p50: 2.5, p99: 4 });
  expect(() => readReport('Concurrency\n8\n')).toThrow("perf_analyzer's report has no Inferences/Second");
});

describe('sync', () => {
  const measurement = (times: Record<string, number[]>, rest: Partial<Measurement> = {}): Measurement => {
    const samples = (seconds: number[]) =>
      seconds.map((one) => ({ seconds: one, cpuSeconds: one / 2, peakBytes: one * 1e6 }));
    const entries = Object.entries(times).map(([name, seconds]) => [name, samples(seconds)] as const);
    return { name: 'test', title: 'Files <a> & "b"', samples: new Map(entries), ...rest };
  };
  const others = { s5cmd: [10], rclone: [30], 'rclone, tuned': [20], 'aws s3 sync': [40] };

  test('every tool uploads to the same prefix of the same server, without the settings of the user', () => {
    process.env['AWS_PROFILE'] = 'mine';
    const programs = { s5cmd: '/s5cmd', rclone: '/rclone', aws: { packages: '/packages', program: '/aws' } };
    for (const { sync } of syncTools({ endpoint: 'http://127.0.0.1:9', python: '/python3', programs, home: '/home' })) {
      const { argv, env } = sync('/models', 'bench', 'one/prefix');
      const words = [...argv, ...Object.values(env)].join(' ');
      expect(words).toContain('http://127.0.0.1:9');
      expect(words).toMatch(/\/models\/? .*bench\/one\/prefix/);
      expect([env['HOME'], env['AWS_PROFILE']]).toEqual(['/home', undefined]);
    }
    delete process.env['AWS_PROFILE'];
  });

  test('makeRepository writes a valid repository, and changeLabels changes it', async () => {
    const scratch = new Scratch();
    makeRepository(scratch.directory, { models: 2, parts: 4, partBytes: 1024 });
    changeLabels(scratch.directory, modelName(0), 7);
    const { problems, models } = await readRepository(scratch.directory, {});
    expect([problems, models.length]).toEqual([[], 2]);
    const files = readdirSync(scratch.directory, { recursive: true, encoding: 'utf8' });
    const parts = files.filter((file) => file.endsWith('.bin'));
    const contents = parts.map((file) => readFileSync(join(scratch.directory, file), 'latin1'));
    expect(new Set(contents).size).toBe(4);
    expect(readFileSync(join(scratch.directory, modelName(0), 'labels.txt'), 'utf8')).toBe('change 000000007\n');
    await scratch.clean();
  });

  test('countRequests counts the operation of each line of the access log once', () => {
    const line = (operation: string, key: string) =>
      `local bench [20/November/2026:14:24:56 +0000] 127.0.0.1 local CXND7CJ5QOM32F73 s3_${operation} ${key} /bench 200 -`;
    const lines = [line('ListObjectsV2', '-'), line('PutObject', 'x'), line('PutObject', 'p/ local s3_HeadObject y')];
    expect(countRequests(lines.join('\n'))).toEqual({ ListObjectsV2: 1, PutObject: 2 });
  });

  test('getBest takes the smallest median', () => {
    const result = measurement({ rclone: [1, 5, 5], 'rclone, tuned': [4, 4, 4], s5cmd: [1, 1, 1] });
    expect([getBest(result, /^rclone/), getBest(result, /^aws/)]).toEqual(['rclone, tuned', '']);
  });

  test.each<{ name: string; time: number; rest: Partial<Measurement>; met: boolean[] }>([
    { name: 'cold-1000', time: 12.1, rest: {}, met: [true, false] },
    { name: 'cold-10000', time: 5, rest: {}, met: [true, true, true] },
    {
      name: 'large',
      time: 10.5,
      rest: { figures: { 'peak bytes with quarter files': 1e7 } },
      met: [true, true, true, true],
    },
    { name: 'large', time: 11, rest: {}, met: [false, true, true, false] },
    {
      name: 'no-op',
      time: 5,
      rest: { requests: { 'sync-models': { ListObjectsV2: 11 } } },
      met: [true, false, true, true],
    },
    { name: 'changed', time: 31, rest: { figures: { 'files written': 2 } }, met: [true, false] },
  ])('the goals of $name with $time s', ({ name, time, rest, met }) => {
    const goals = SCENARIOS.find((one) => one.name === name)?.goals ?? [];
    const times = { 'sync-models': [time], ...others, 'sync-models, nothing changed': [30] };
    expect(evaluate(goals, measurement(times, rest)).map((goal) => goal.met)).toEqual(met);
  });
});
