import { setTimeout as sleep } from 'node:timers/promises';
import type { TritonHttpClient } from '../../src/triton/http';
import { until } from './wait-for';

/** Python code that delays a load until the file exists. */
export const holdUntil = (file: string): string =>
  `import os, time\nwhile not os.path.exists("${file}"):\n    time.sleep(0.05)\n`;

/**
 * The part of a configuration that calls two adding models one after the other.
 * @param pin `model_version` of both
 */
export function twoSteps(first: string, second: string, pin: number): string {
  const use = (model: string, from: string, to: string): string =>
    `step { model_name: "${model}" model_version: ${pin} ` +
    `input_map { key: "x" value: "${from}" } output_map { key: "y" value: "${to}" } }`;
  return `ensemble_scheduling { ${use(first, 'x', 'between')} ${use(second, 'between', 'y')} }\n`;
}

/** Requests with 0 to an adding model or an ensemble of them, sent until `end`. */
export class EnsembleRequests {
  /** Numbers, and the texts of errors, in their order. */
  readonly answers: (number | string)[] = [];
  inFlight = 0;
  private readonly stop = new AbortController();
  private readonly done: Promise<unknown>;

  /** @param isReady requests are sent only while this holds, as a Service does */
  constructor(
    private readonly client: TritonHttpClient,
    private readonly ensemble: string,
    private readonly isReady: () => boolean = () => true,
  ) {
    this.done = Promise.all(Array.from({ length: 3 }, () => this.send()));
  }

  private async send(): Promise<void> {
    const x = { name: 'x', datatype: 'FP32', shape: [1], data: Float32Array.of(0) } as const;
    while (!this.stop.signal.aborted) {
      await sleep(10);
      if (!this.isReady()) continue;
      this.inFlight += 1;
      const answer = this.client.infer(this.ensemble, [x]).then(({ outputs }) => Number(outputs[0]?.data[0]));
      this.answers.push(await answer.catch(String));
      this.inFlight -= 1;
    }
  }

  async more(): Promise<void> {
    const { length } = this.answers;
    await until('ten more answers', () => this.answers.length >= length + 10);
  }

  /** @returns the different answers, after one of the release that is served last */
  async end(last = 22): Promise<(number | string)[]> {
    await until('an answer of the last release', () => this.answers.at(-1) === last);
    this.stop.abort();
    await this.done;
    return [...new Set(this.answers)].sort();
  }
}
