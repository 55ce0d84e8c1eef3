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

/** One panel: a title, a unit of Grafana, and the drawn series. */
interface Panel {
  title: string;
  unit: string;
  queries: { expression: string; legend: string }[];
}

const BY_MODEL = ['model', 'version'];
const MODEL_LEGEND = '{{model}} {{version}}';
const POD_LEGEND = '{{pod}}';
const COLUMNS = 24;
const PANEL = { width: 12, height: 8 };

/** Grafana replaces it with the step of the graph, but at least four scrapes, so that a long range hides no peak. */
const WINDOW = '$__rate_interval';

/** What the panels depend on. */
export interface PanelOptions {
  gpus: boolean;
  /** What the autoscaler follows; empty without an autoscaler. */
  signals: readonly LoadSignal[];
  /** The objective for the duration of requests. */
  p99Milliseconds?: number;
}

/** The panels, two in a row. On-call people need the first ones first. */
export function panels(component: SeriesOf, { gpus, signals, p99Milliseconds }: PanelOptions): Panel[] {
  const of = { ...component, rateWindow: WINDOW };
  const perModel = (metric: string): string => sumRate(metric, of, BY_MODEL);
  const one = (title: string, unit: string, expression: string, legend: string): Panel => ({
    title,
    unit,
    queries: [{ expression, legend }],
  });
  return [
    one(
      'Failed requests by reason',
      'reqps',
      sumRate('nv_inference_request_failure', of, [...BY_MODEL, 'reason']),
      `${MODEL_LEGEND} {{reason}}`,
    ),
    replicas(of, signals.length > 0),
    one('Requests by replica', 'reqps', sumRate('nv_inference_request_success', of, ['pod']), POD_LEGEND),
    one('Mean queue time by replica', 'ms', meanQueueMilliseconds(of, ['pod', 'model']), `${POD_LEGEND} {{model}}`),
    ...signals.map(signalPanel),
    ...(signals.length > 0
      ? [
          // What it read last, after the query bounded it; it adds replicas above 1. KEDA numbers its queries as the signals.
          one(
            'Autoscaler: what it read, share of the goal',
            'percentunit',
            ['status', 'spec']
              .map((part) =>
                maxOfAutoscaler(of, `${part}_target_metric`, 'metric_name', 'metric_target_type="average"'),
              )
              .join(' / '),
            '{{metric_name}}',
          ),
          // ScalingActive: it reads its signals. ScalingLimited: it wants fewer than the minimum or more than the maximum.
          one(
            'Autoscaler: conditions that hold',
            'short',
            maxOfAutoscaler(of, 'status_condition', 'condition', 'status="true"'),
            '{{condition}}',
          ),
        ]
      : []),
    one('Memory of the container, share of its limit', 'percentunit', memoryShare(of), '{{pod}} {{container}}'),
    one('Requests', 'reqps', perModel('nv_inference_request_success'), MODEL_LEGEND),
    one(
      'Mean request duration',
      'ms',
      meanMilliseconds('nv_inference_request_duration_us', of, BY_MODEL),
      MODEL_LEGEND,
    ),
    {
      title: 'Request duration of the slowest replica: p50, p95, p99 of the last minute',
      unit: 'ms',
      queries: [
        ...([0.5, 0.95, 0.99] as const).map((quantile) => ({
          expression: largestQuantile(of, quantile),
          legend: `${MODEL_LEGEND} p${100 * quantile}`,
        })),
        ...(p99Milliseconds === undefined
          ? []
          : [{ expression: `vector(${p99Milliseconds})`, legend: 'objective for p99' }]),
      ],
    },
    one(
      'Mean compute time',
      'ms',
      meanMilliseconds('nv_inference_compute_infer_duration_us', of, BY_MODEL),
      MODEL_LEGEND,
    ),
    one('Batches in flight per replica', 'short', meanBatchesInFlight(of, ['model']), '{{model}}'),
    one('Pending requests', 'short', `sum by (model) (nv_inference_pending_request_count${series(of)})`, '{{model}}'),
    one(
      'Mean batch size',
      'short',
      `${perModel('nv_inference_count')} / (${perModel('nv_inference_exec_count')} > 0)`,
      MODEL_LEGEND,
    ),
    one('Replicas that have loaded a model', 'short', loadedOn(of), MODEL_LEGEND),
    ...(gpus
      ? [
          one('GPU utilization', 'percentunit', `nv_gpu_utilization${series(of)}`, `${POD_LEGEND} {{gpu_uuid}}`),
          one('GPU memory utilization', 'percentunit', gpuMemoryShare(of), `${POD_LEGEND} {{gpu_uuid}}`),
        ]
      : []),
  ];
}

/** A series of kube-state-metrics about the autoscaler, `max by (...)`; without `by`, one value. */
function maxOfAutoscaler(of: SeriesOf, metric: string, by = '', ...matchers: string[]): string {
  return `max${by === '' ? '' : ` by (${by}) `}(kube_horizontalpodautoscaler_${metric}${autoscalerSeries(of, ...matchers)})`;
}

/** Pods without an address are missing from the series of Prometheus's own targets, so the Deployment is drawn, too. */
function replicas(of: SeriesOf, autoscaler: boolean): Panel {
  const deployment = deploymentSeries(of);
  const drawn = {
    desired: `max(kube_deployment_spec_replicas${deployment})`,
    ready: `max(kube_deployment_status_replicas_ready${deployment})`,
    'answer Prometheus': servingPods(of),
    ...(autoscaler && {
      maximum: maxOfAutoscaler(of, 'spec_max_replicas'),
      minimum: maxOfAutoscaler(of, 'spec_min_replicas'),
      'autoscaler wants': maxOfAutoscaler(of, 'status_desired_replicas'),
    }),
  };
  return {
    title: 'Replicas',
    unit: 'short',
    queries: Object.entries(drawn).map(([legend, expression]) => ({ legend, expression })),
  };
}

/** A signal with the window of the autoscaler, so that the panel shows what the autoscaler reads. */
const signalPanel = ({ title, unit, goal, ofModels }: LoadSignal): Panel => ({
  title: `Autoscaler: ${title}`,
  unit,
  queries: [
    { expression: ofModels([]), legend: '{{model}}' },
    { expression: `vector(${goal})`, legend: 'goal' },
  ],
});

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
