import { OURS, PERF_ANALYZER, readReport, type Sample } from '../../../../tools/bench/client/contestants';
import { cellJson, cellTable } from '../../../../tools/bench/client/report';

it("reads perf_analyzer's table, in milliseconds", () => {
  const report =
    'Concurrency,Inferences/Second,Client Send,p50 latency,p90 latency,p95 latency,p99 latency\n8,1234.5,1,2500,3000,3500,4000,\n';
  expect(readReport(report)).toEqual({ requestsPerSecond: 1234.5, p50: 2.5, p99: 4 });
});

it("refuses a table that is not perf_analyzer's", () => {
  expect(() => readReport('Concurrency\n8\n')).toThrow("perf_analyzer's report has no Inferences/Second");
});

describe('a cell', () => {
  const samples = (...rates: number[]): Sample[] =>
    rates.map((requestsPerSecond) => ({ requestsPerSecond, p50: 1, p99: 2 }));
  const cell = {
    protocol: 'gRPC' as const,
    elements: 16,
    concurrency: 8,
    samples: new Map([
      [OURS, samples(110, 300, 120)],
      ['tritonclient, threads', samples(100, 100, 100)],
      ['tritonclient, asyncio', samples(100, 200, 150)],
      [PERF_ANALYZER, samples(220, 300, 480)],
    ]),
  };

  it('is compared with the fastest form of tritonclient, round by round', () => {
    expect(cellTable([cell]).split('\n')[2]).toMatch(
      /^gRPC, 16 numbers, 8 at a time +120 +150 +asyncio +300 +1\.10 +0\.50$/,
    );
    expect(cellJson(cell)).toMatchObject({ ratio: { 'tritonclient, asyncio': 1.1, perf_analyzer: 0.5 } });
  });

  it('has no figures of a perf_analyzer that hung', () => {
    const hung = { ...cell, samples: new Map([...cell.samples, [PERF_ANALYZER, samples(NaN, NaN, NaN)]]) };
    expect(cellTable([hung]).split('\n')[2]).toMatch(/ 120 +150 +asyncio +- +1\.10 +-$/);
  });
});
