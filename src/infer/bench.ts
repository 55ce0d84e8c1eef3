import { EXIT } from '../cli/cli';
import { Progress } from '../cli/progress';
import { formatTable } from '../core/format';
import { generateLoad, WARM_UP_MS, type LoadOptions, type LoadResult } from './load';

/** A load test of the command line. */
export interface BenchOptions extends LoadOptions {
  /** Doubles `rate`, or else `concurrency`, until the 99th percentile is above this, in ms. */
  p99?: number;
}

/** One measurement. */
interface Step extends LoadResult {
  concurrency: number;
  /** Requests per second that were due. */
  rate?: number;
}

const MOST_CONCURRENCY = 1024;
const MOST_RATE = 100_000;

/**
 * Measures the time of a request, and prints the result.
 * @param subject the model, and the request in words
 * @param more fields of the result in JSON
 * @returns the exit code: 1 if a request failed or was not sent, or if the goal is never met
 */
export async function bench(
  send: () => Promise<unknown>,
  subject: { model: string; request: string },
  options: BenchOptions & { json: boolean },
  more: object,
): Promise<number> {
  const { p99, json, ...load } = options;
  const steps = await measure(send, load, p99);
  const best = steps.filter((step) => p99 !== undefined && meets(step, p99)).at(-1);
  if (json) process.stdout.write(`${JSON.stringify(toJson(subject.model, steps, best, options, more), null, 2)}\n`);
  else process.stdout.write(describe(subject, steps, best, options));
  for (const { messages, unsent, concurrency, rate } of steps) {
    for (const [message, count] of Object.entries(messages))
      process.stderr.write(`${count} requests failed: ${message}\n`);
    if (unsent > 0) {
      process.stderr.write(
        `${unsent} requests were due and not sent, because ${concurrency} were in flight: the server is slower than ${rate} requests/s (or raise --concurrency)\n`,
      );
    }
  }
  const isGood = p99 === undefined ? steps.every(({ errors, unsent }) => errors + unsent === 0) : best !== undefined;
  return isGood ? EXIT.ok : EXIT.failed;
}

async function measure(send: () => Promise<unknown>, load: LoadOptions, p99: number | undefined): Promise<Step[]> {
  const steps: Step[] = [];
  for (let next: LoadOptions | undefined = load; next !== undefined;) {
    const current: LoadOptions = next;
    const name = stepName(current);
    const title = `load test: ${name}, ${WARM_UP_MS / 1000} s of warm-up and ${current.seconds} s of measurement`;
    const measuring = new Progress().run(title, () => generateLoad(send, current));
    const result = await measuring.catch((error: unknown) => {
      // A server that answers nothing at this load ends the test; its earlier results count.
      if (steps.length === 0) throw error;
      process.stderr.write(`${name}: ${(error as Error).message}\n`);
    });
    if (result === undefined) break;
    const step: Step = { concurrency: current.concurrency, rate: current.rate, ...result };
    steps.push(step);
    next = p99 !== undefined && meets(step, p99) ? double(current) : undefined;
  }
  return steps;
}

const stepName = ({ concurrency, rate }: LoadOptions): string =>
  rate === undefined ? `concurrency ${concurrency}` : `concurrency ${concurrency}, ${rate} requests/s`;

/** @returns the load with the doubled rate, or else concurrency; undefined above the most */
function double({ concurrency, rate, ...load }: LoadOptions): LoadOptions | undefined {
  if (rate !== undefined) return rate * 2 > MOST_RATE ? undefined : { ...load, concurrency, rate: rate * 2 };
  return concurrency * 2 > MOST_CONCURRENCY ? undefined : { ...load, concurrency: concurrency * 2 };
}

const meets = (step: Step, p99: number): boolean => step.errors + step.unsent === 0 && step.p99 <= p99;

function toJson(
  model: string,
  steps: readonly Step[],
  best: Step | undefined,
  { p99 }: BenchOptions,
  more: object,
): object {
  if (p99 === undefined) return { model, ...steps[0], ...more };
  return { model, p99Goal: p99, best: best ?? null, steps, ...more };
}

function describe(
  { model, request }: { model: string; request: string },
  steps: readonly Step[],
  best: Step | undefined,
  { p99, rate }: BenchOptions,
): string {
  const milliseconds = (value: number): string => `${value.toFixed(2)} ms`;
  const table = formatTable(
    [rate === undefined ? 'concurrency' : 'rate', 'requests/s', 'p50', 'p95', 'p99', 'max', 'requests', 'errors'],
    steps.map((step) => [
      String(step.rate ?? step.concurrency),
      step.requestsPerSecond.toFixed(1),
      ...[step.p50, step.p95, step.p99, step.max].map(milliseconds),
      String(step.requests),
      String(step.errors),
    ]),
  );
  const seconds = steps.reduce((sum, step) => sum + step.seconds, 0).toFixed(1);
  const found =
    p99 === undefined
      ? ''
      : best === undefined
        ? `\nNo ${rate === undefined ? 'concurrency' : 'rate'} has a p99 of at most ${p99} ms.\n`
        : `\nMost with a p99 of at most ${p99} ms: ${best.requestsPerSecond.toFixed(1)} requests/s at ${best.rate === undefined ? `concurrency ${best.concurrency}` : `a rate of ${best.rate}`}.\n`;
  return `${model}, ${request}, ${seconds} s\n\n${table}\n${found}`;
}
