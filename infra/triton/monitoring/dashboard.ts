import { createHash } from 'node:crypto';
import { largestQuantile } from './latency';
import { meanBatchesInFlight, type LoadSignal } from './load-signals';
import {
  autoscalerSeries,
  deploymentSeries,
  gpuMemoryShare,
  loadedOn,
  meanMilliseconds,
  meanQueueMilliseconds,
  memoryShare,
  SCRAPE_SECONDS,
  series,
  servingPods,
  sumRate,
  type SeriesOf,
} from './promql';

interface Panel {
  title: string;
  unit: string;
  queries: { expression: string; legend: string }[];
}

const BY_MODEL = ['model', 'version'];
const MODEL_LEGEND = '{{model}} {{version}}';
const POD_LEGEND = '{{pod}}';
const GPU_LEGEND = '{{pod}} {{gpu_uuid}}';
const COLUMNS = 24;
const PANEL = { width: 12, height: 8 };

/** Grafana replaces it with the step of the graph, but at least four scrapes, so that a long range hides no peak. */
const WINDOW = '$__rate_interval';

export interface PanelOptions {
  gpus: boolean;
  /** What the autoscaler follows; empty without an autoscaler. */
  signals: readonly LoadSignal[];
  /** The objective for the duration of requests. */
  p99Milliseconds?: number;
}

/** @param drawn legend -> expression */
const panel = (title: string, unit: string, drawn: Record<string, string>): Panel => ({
  ...{ title, unit },
  queries: Object.entries(drawn).map(([legend, expression]) => ({ legend, expression })),
});

/** The panels, two in a row. On-call people need the first ones first. */
export function panels(component: SeriesOf, { gpus, signals, p99Milliseconds }: PanelOptions): Panel[] {
  const of = { ...component, rateWindow: WINDOW };
  const perModel = (metric: string): string => sumRate(metric, of, BY_MODEL);
  const failed = sumRate('nv_inference_request_failure', of, [...BY_MODEL, 'reason']);
  const duration = meanMilliseconds('nv_inference_request_duration_us', of, BY_MODEL);
  const computeTime = meanMilliseconds('nv_inference_compute_infer_duration_us', of, BY_MODEL);
  const pending = `sum by (model) (nv_inference_pending_request_count${series(of)})`;
  const batchSize = `${perModel('nv_inference_count')} / (${perModel('nv_inference_exec_count')} > 0)`;
  return [
    panel('Failed requests by reason', 'reqps', { [`${MODEL_LEGEND} {{reason}}`]: failed }),
    replicas(of, signals.length > 0),
    panel('Requests by replica', 'reqps', { [POD_LEGEND]: sumRate('nv_inference_request_success', of, ['pod']) }),
    panel('Mean queue time by replica', 'ms', {
      [`${POD_LEGEND} {{model}}`]: meanQueueMilliseconds(of, ['pod', 'model']),
    }),
    ...(signals.length > 0 ? autoscalerPanels(of, signals) : []),
    panel('Memory of the container, share of its limit', 'percentunit', { '{{pod}} {{container}}': memoryShare(of) }),
    panel('Requests', 'reqps', { [MODEL_LEGEND]: perModel('nv_inference_request_success') }),
    panel('Mean request duration', 'ms', { [MODEL_LEGEND]: duration }),
    panel('Request duration of the slowest replica: p50, p95, p99 of the last minute', 'ms', {
      ...Object.fromEntries(
        ([0.5, 0.95, 0.99] as const).map((share) => [`${MODEL_LEGEND} p${100 * share}`, largestQuantile(of, share)]),
      ),
      ...(p99Milliseconds !== undefined && { 'objective for p99': `vector(${p99Milliseconds})` }),
    }),
    panel('Mean compute time', 'ms', { [MODEL_LEGEND]: computeTime }),
    panel('Batches in flight per replica', 'short', { '{{model}}': meanBatchesInFlight(of, ['model']) }),
    panel('Pending requests', 'short', { '{{model}}': pending }),
    panel('Mean batch size', 'short', { [MODEL_LEGEND]: batchSize }),
    panel('Replicas that have loaded a model', 'short', { [MODEL_LEGEND]: loadedOn(of) }),
    ...(gpus
      ? [
          panel('GPU utilization', 'percentunit', { [GPU_LEGEND]: `nv_gpu_utilization${series(of)}` }),
          panel('GPU memory utilization', 'percentunit', { [GPU_LEGEND]: gpuMemoryShare(of) }),
        ]
      : []),
  ];
}

/** A series of kube-state-metrics about the autoscaler, `max by (...)`; without `by`, one value. */
function maxOfAutoscaler(of: SeriesOf, metric: string, by = '', ...matchers: string[]): string {
  return `max${by === '' ? '' : ` by (${by}) `}(kube_horizontalpodautoscaler_${metric}${autoscalerSeries(of, ...matchers)})`;
}

/** Pods without an address are missing from the series of Prometheus's own targets, so the Deployment is drawn, too. */
function replicas(of: SeriesOf, hasAutoscaler: boolean): Panel {
  const deployment = deploymentSeries(of);
  return panel('Replicas', 'short', {
    desired: `max(kube_deployment_spec_replicas${deployment})`,
    ready: `max(kube_deployment_status_replicas_ready${deployment})`,
    'answer Prometheus': servingPods(of),
    ...(hasAutoscaler && {
      maximum: maxOfAutoscaler(of, 'spec_max_replicas'),
      minimum: maxOfAutoscaler(of, 'spec_min_replicas'),
      'autoscaler wants': maxOfAutoscaler(of, 'status_desired_replicas'),
    }),
  });
}

function autoscalerPanels(of: SeriesOf, signals: readonly LoadSignal[]): Panel[] {
  const [read, goal] = ['status', 'spec'].map((part) =>
    maxOfAutoscaler(of, `${part}_target_metric`, 'metric_name', 'metric_target_type="average"'),
  );
  const conditions = maxOfAutoscaler(of, 'status_condition', 'condition', 'status="true"');
  return [
    // With the window of the autoscaler, so that the panel shows what the autoscaler reads.
    ...signals.map(({ title, unit, goal, ofModels }) =>
      panel(`Autoscaler: ${title}`, unit, { '{{model}}': ofModels([]), goal: `vector(${goal})` }),
    ),
    // What it read last, after the query bounded it; it adds replicas above 1. KEDA numbers its queries as the signals.
    panel('Autoscaler: what it read, share of the goal', 'percentunit', { '{{metric_name}}': `${read} / ${goal}` }),
    // ScalingActive: it reads its signals. ScalingLimited: it wants fewer than the minimum or more than the maximum.
    panel('Autoscaler: conditions that hold', 'short', { '{{condition}}': conditions }),
  ];
}

/** Returns a dashboard in Grafana's JSON model. */
export function dashboard(of: SeriesOf, options: PanelOptions): object {
  return {
    uid: uid(of),
    title: `Triton ${of.namespace}/${of.name}`,
    tags: ['triton'],
    timezone: 'browser',
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [{ name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {} }],
    },
    panels: panels(of, options).map((panel, index) => grafanaPanel(panel, index)),
  };
}

/** Grafana allows 40 characters. The id must be unique among all components of the same Grafana. */
function uid({ namespace, name }: SeriesOf): string {
  return `triton-${createHash('sha256').update(`${namespace}/${name}`).digest('hex').slice(0, 16)}`;
}

function grafanaPanel({ title, unit, queries }: Panel, index: number): object {
  const datasource = { type: 'prometheus', uid: '${datasource}' };
  const x = (index * PANEL.width) % COLUMNS;
  const y = Math.floor((index * PANEL.width) / COLUMNS) * PANEL.height;
  return {
    id: index + 1,
    type: 'timeseries',
    title,
    datasource,
    gridPos: { x, y, w: PANEL.width, h: PANEL.height },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(({ expression, legend }, query) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + query),
      datasource,
      expr: expression,
      legendFormat: legend,
      // Grafana derives the shortest $__rate_interval from it.
      interval: `${SCRAPE_SECONDS}s`,
    })),
  };
}
