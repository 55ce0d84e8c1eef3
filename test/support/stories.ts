import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ruleGroups, type RuleGroup } from '../../infra/triton/monitoring/monitoring';
import { readArguments } from '../../infra/triton/rules';
import { CommandError, exec } from '../../src/core/exec';
import { ARGS } from './render';

/** The series of the server in all rules. */
export const OF = { namespace: 'triton', name: 'triton' };

/** Settings of a server with an autoscaler and objectives: 99 of 100 requests within 100 ms, and one failure in 1000 requests. */
const SETTINGS = readArguments('triton', {
  ...ARGS,
  autoscaling: { minReplicas: 2, maxReplicas: 8 },
  monitoring: { slo: { p99Milliseconds: 100, errorRate: 0.001 } },
});

export const GROUPS = SETTINGS.monitoring === undefined ? [] : ruleGroups(SETTINGS, SETTINGS.monitoring);

/**
 * Stories: series in, and out an alert, silence or a number of replicas. A story is text:
 *
 *     ALERT: title              or  replicas: title
 *       SERIES; SERIES          NAME PODS[/MODEL[/VERSION[/REASON]]] VALUES: one letter per pod, commas instead of spaces in values
 *       silent MINUTES, fires MINUTES
 *       says MINUTE LABELS: SUMMARY      or  asks queue REPLICAS batches REPLICAS
 */
export interface Story {
  story: string;
  alert: string;
  series: string[];
  expected: string[];
}

const EXPECTATION = /^(silent|fires|says|asks) /;

export function parseStories(text: string): Story[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const stories: Story[] = [];
  for (const line of lines) {
    const part = line.trim();
    const story = stories.at(-1);
    if (!line.startsWith(' ')) {
      const [alert = '', title = ''] = part.split(/: (.*)/);
      stories.push({ story: title, alert, series: [], expected: [] });
    } else if (EXPECTATION.test(part)) story?.expected.push(part);
    else story?.series.push(...part.split(/; ?/).filter((one) => one !== ''));
  }
  return stories;
}

/** Names that Kubernetes could give to pods of the Deployment `triton`. */
const podName = (letter: string): string => `triton-6d5f7c9b8-${letter.repeat(5)}`;

const OF_POD = 'namespace="triton",job="triton",pod="POD"';
const MODEL = `{${OF_POD},model="$1",version="$2"}`;
const DEPLOYMENT = '{namespace="triton",deployment="triton"}';
const AGENT = '{namespace="triton",job="triton/triton-agent",pod="POD"}';

/** Word of a story -> series. */
const SERIES: Readonly<Record<string, string>> = {
  available: `kube_deployment_status_replicas_available${DEPLOYMENT}`,
  desired: `kube_deployment_spec_replicas${DEPLOYMENT}`,
  ready: `kube_deployment_status_replicas_ready${DEPLOYMENT}`,
  created: `kube_deployment_created${DEPLOYMENT}`,
  generation: `kube_deployment_metadata_generation${DEPLOYMENT}`,
  up: `up{${OF_POD}}`,
  gpu: `nv_gpu_memory_total_bytes{${OF_POD},gpu_uuid="$1"}`,
  gpu_used: `nv_gpu_memory_used_bytes{${OF_POD},gpu_uuid="$1"}`,
  gpu_busy: `nv_gpu_utilization{${OF_POD},gpu_uuid="$1"}`,
  success: `nv_inference_request_success${MODEL}`,
  failure: `nv_inference_request_failure${MODEL.replace('}', ',reason="$3"}')}`,
  waited: `nv_inference_queue_duration_us${MODEL}`,
  took: `nv_inference_request_duration_us${MODEL}`,
  compute: `nv_inference_compute_infer_duration_us${MODEL}`,
  batches: `nv_inference_exec_count${MODEL}`,
  loaded: `nv_inference_count${MODEL}`,
  pending: `nv_inference_pending_request_count${MODEL}`,
  summary: `nv_inference_request_summary_us${MODEL.replace('}', ',quantile="$3"}')}`,
  reason: 'kube_pod_status_reason{namespace="triton",pod="POD",reason="$1"}',
  used: 'container_memory_working_set_bytes{namespace="triton",pod="POD",container="$1",id="$2"}',
  limit: 'kube_pod_container_resource_limits{namespace="triton",pod="POD",container="$1",resource="$2"}',
  agent_up: `up${AGENT}`,
  serves_head: `triton_agent_serves_head${AGENT}`,
  trial: `triton_agent_trial_active${AGENT}`,
  head_read: `triton_agent_last_head_read_timestamp_seconds${AGENT}`,
  download_failures: `triton_agent_download_failures_total${AGENT}`,
};

const QUANTILES = ['0.5', '0.85', '0.93', '0.95', '0.99'];

/** Words that stand for several series. Counts are per 15 s, and times in milliseconds. */
const WORDS: Readonly<Record<string, (of: string, ...args: string[]) => string[]>> = {
  // An old Deployment of two replicas.
  deployment: () => ['available 2x400', 'desired 2x400', 'created -1000000x400', 'generation 3x400'],
  requests: (of, count, milliseconds) => [
    `success ${of} 0+${count}x400`,
    `waited ${of} 0+${Number(count) * Number(milliseconds) * 1000}x400`,
    `failure ${of}/1/BACKEND 0x400`,
    `failure ${of}/1/CANCELED 0x400`,
    `loaded ${of} 0+${count}x400`,
    `pending ${of} 0x400`,
  ],
  computed: (of, count, milliseconds, batch = '1') => [
    `requests ${of} ${count} 0`,
    `took ${of} 0+${Number(count) * Number(milliseconds) * 1000}x400`,
    `batches ${of} 0+${Number(count) / Number(batch)}x400`,
  ],
  stuck: (of) => [`success ${of} 500x400`, `waited ${of} 5000x400`, `loaded ${of} 500x400`, `pending ${of} 50x400`],
  // Requests take 10 ms up to the quantile `from`, and then `values` microseconds.
  takes: (of, from = '', values) =>
    QUANTILES.map((quantile) => `summary ${of}/1/${quantile} ${quantile < from ? '10000x1700' : values}`),
};

/** Words that have no subject. */
const PLAIN = ['available', 'ready', 'desired', 'created', 'generation'];

/** Returns series in promtool's notation; a later one replaces an earlier one of the same name. */
export function getSeries(words: readonly string[]): Map<string, string> {
  const all = new Map<string, string>();
  for (const text of words) {
    const [word = '', ...rest] = text.split(' ');
    const expand = WORDS[word];
    if (expand !== undefined) {
      const [of = '', ...args] = rest;
      const subject = of.includes('/') ? of : `${of}/bert`;
      for (const [series, values] of getSeries(expand(subject, ...args))) all.set(series, values);
      continue;
    }
    const template = SERIES[word];
    if (template === undefined) throw new Error(`no such series: ${text}`);
    const [subject = '', values = '1x400'] = PLAIN.includes(word) ? ['x', ...rest] : rest;
    const [pods = '', model = 'bert', version = '1', more = ''] = subject.split('/');
    for (const pod of pods) {
      const labels: Record<string, string> = { $1: model, $2: version, $3: more, POD: podName(pod) };
      all.set(
        template.replaceAll(/\$\d|POD/g, (name) => labels[name] ?? ''),
        values.replaceAll(',', ' ').replaceAll(/NaNx(\d+)/g, (_, times: string) => 'NaN '.repeat(Number(times)).trim()),
      );
    }
  }
  return all;
}

/** What promtool tests, for a story and the queries of the autoscaler by name, each divided by its goal. */
export function promtoolTest({ alert, series, expected }: Story, queries: Readonly<Record<string, string>>): object {
  const evaluations: object[] = [];
  const alerts: object[] = [];
  const add = (expr: string, minute: number, samples: readonly (readonly [labels: string, value: number])[]): void => {
    const exp_samples = samples.map(([labels, value]) => ({ labels, value }));
    evaluations.push({ expr, eval_time: `${minute * 60}s`, exp_samples });
  };
  for (const line of expected.flatMap((one) => (one.startsWith('says') ? one : one.split(', ')))) {
    const [kind = '', ...words] = line.split(' ');
    if (kind === 'says') {
      const [, minute = '', labels = '', summary] = /^says (\S+) (.*?): (.*)$/.exec(line) ?? [];
      const [severity, ...others] = labels
        .split(' ')
        .map((one) => (/^pod=/.test(one) ? `pod=${podName(one[4] ?? '')}` : one));
      const exp_labels = Object.fromEntries([
        ...[`severity=${severity}`, 'namespace=triton', 'server=triton', ...others].map((one) => one.split('=')),
      ]) as object;
      const exp_annotations = {
        summary: summary?.replaceAll(/POD (\w)/g, (_, pod: string) => podName(pod)),
        runbook_url: `docs/runbook.md#${alert.toLowerCase()}`,
      };
      alerts.push({ alertname: alert, eval_time: `${minute}m`, exp_alerts: [{ exp_labels, exp_annotations }] });
    } else if (kind === 'fires' || kind === 'silent') {
      const firing = `count(ALERTS{alertname=~"${alert}",alertstate="firing"}) > bool 0`;
      for (const minute of words) add(firing, Number(minute), kind === 'fires' ? [['{}', 1]] : []);
    } else if (kind === 'asks') {
      for (let i = 0; i < words.length; i += 2) {
        const value = words[i + 1];
        add(`round(${queries[words[i] ?? '']}, 0.01)`, 30, value === 'nothing' ? [] : [['{}', Number(value)]]);
      }
    }
  }
  const input_series = [...getSeries(series)].map(([name, values]) => ({ series: name, values }));
  return { interval: '15s', input_series, promql_expr_test: evaluations, alert_rule_test: alerts };
}

/** Runs `promtool test rules` on one test of `rules`. @returns the failures, or an empty string */
export async function runPromtool(
  promtool: string,
  directory: string,
  groups: readonly RuleGroup[],
  test: object,
): Promise<string> {
  const [rules, file] = [join(directory, 'rules.json'), join(directory, 'test.json')];
  // JSON is valid YAML.
  writeFileSync(rules, JSON.stringify({ groups }));
  writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: '15s', tests: [test] }));
  try {
    await exec(promtool, ['test', 'rules', file]);
    return '';
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return error.output.stdout + error.output.stderr;
  }
}
