import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TritonServerArgs } from '../../infra/triton/args';
import { ruleGroups } from '../../infra/triton/monitoring/monitoring';
import { withDefaults } from '../../infra/triton/settings';
import { CommandError, exec } from '../../src/core/exec';
import { ensurePromtool } from '../../tools/toolchain/promtool';
import { ARGS } from './render';
import { Scratch } from './temp-dir';

/** A time series with one value per 15 s, from minute 0. */
export interface Series {
  series: string;
  values: string;
}

/** Names that Kubernetes could give to pods of the Deployment `triton`. */
export const POD = 'triton-6d5f7c9b8-x2x4z';
export const OTHER = 'triton-6d5f7c9b8-abcde';

/** The series of the server in all rules. */
export const OF = { namespace: 'triton', name: 'triton', scrapeSeconds: 15 };

/** Labels of a series that Prometheus scrapes from a pod. */
export const labels = (pod: string, more = ''): string => `{namespace="triton",job="triton",pod="${pod}"${more}}`;

export const up = (pod: string, values = '1x400'): Series => ({ series: `up${labels(pod)}`, values });

/** Series of kube-state-metrics about an object: metric without `kube_KIND_` -> values in promtool's notation. */
export const ofObject = (
  kind: 'deployment' | 'horizontalpodautoscaler',
  name: string,
  values: Record<string, string>,
): Series[] =>
  Object.entries(values).map(([metric, of]) => ({
    series: `kube_${kind}_${metric}{namespace="triton",${kind}="${name}"}`,
    values: of,
  }));

/** The GPU that a pod sees. */
export const gpuOf = (pod: string): Series => ({
  series: `nv_gpu_memory_total_bytes${labels(pod, `,gpu_uuid="GPU of ${pod}"`)}`,
  values: '24e9x400',
});

export const ofModel = (metric: string, pod: string, values: string, model = 'bert', version = '1'): Series => ({
  series: `${metric}${labels(pod, `,model="${model}",version="${version}"`)}`,
  values,
});

/** Series of `count` requests per 15 s, each of which waited for `milliseconds`. */
export const requests = (pod: string, count: number, milliseconds: number, model = 'bert'): Series[] => [
  ofModel('nv_inference_request_success', pod, `0+${count}x400`, model),
  ofModel('nv_inference_queue_duration_us', pod, `0+${count * milliseconds * 1000}x400`, model),
  ofModel('nv_inference_request_failure', pod, '0x400', model),
  ofModel('nv_inference_count', pod, `0+${count}x400`, model),
  ofModel('nv_inference_pending_request_count', pod, '0x400', model),
];

/** Settings of a server with an autoscaler, agents and objectives, so that all rules exist. */
export const settingsOf = (more: Partial<TritonServerArgs> = {}): ReturnType<typeof withDefaults> =>
  withDefaults('triton', {
    ...ARGS,
    autoscaling: { kind: 'keda', minReplicas: 2, maxReplicas: 8 },
    monitoring: {},
    agent: {},
    slo: { p99Milliseconds: 100, errorRate: 0.001 },
    ...more,
  });

/** Prometheus's promtool with the rules of a server. */
export class RuleTester {
  readonly rules: string;
  private readonly scratch = new Scratch();
  private program = '';

  constructor(
    settings = settingsOf(),
    private readonly interval = '15s',
  ) {
    this.rules = join(this.scratch.directory, 'rules.json');
    // JSON is valid YAML.
    writeFileSync(this.rules, JSON.stringify({ groups: ruleGroups(settings) }));
  }

  async install(): Promise<void> {
    this.program = await ensurePromtool();
  }

  clean(): Promise<void> {
    return this.scratch.clean();
  }

  run(...args: string[]): ReturnType<typeof exec> {
    return exec(this.program, args);
  }

  /** Runs `promtool test rules` on one test. @returns the failures, or an empty string */
  async check(test: object): Promise<string> {
    const file = join(this.scratch.directory, 'test.json');
    const tests = [{ interval: this.interval, ...test }];
    writeFileSync(file, JSON.stringify({ rule_files: [this.rules], evaluation_interval: this.interval, tests }));
    try {
      await this.run('test', 'rules', file);
      return '';
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      return error.output.stdout + error.output.stderr;
    }
  }
}
