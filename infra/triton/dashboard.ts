import { createHash } from 'node:crypto';
import { meanBatchesInFlight } from './load-signals';
import { gpuMemoryShare, loadedOn, meanMilliseconds, series, servingPods, sumRate, type SeriesOf } from './promql';

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

/** The panels, two in a row: load, latency, loaded models, node. */
export function panels(of: SeriesOf, gpus: boolean): Panel[] {
  const perModel = (metric: string): string => sumRate(metric, of, BY_MODEL);
  const one = (title: string, unit: string, expression: string, legend: string): Panel => ({
    title,
    unit,
    queries: [{ expression, legend }],
  });
  return [
    one('Requests', 'reqps', perModel('nv_inference_request_success'), MODEL_LEGEND),
    one('Failed requests', 'reqps', perModel('nv_inference_request_failure'), MODEL_LEGEND),
    one(
      'Mean request duration',
      'ms',
      meanMilliseconds('nv_inference_request_duration_us', of, BY_MODEL),
      MODEL_LEGEND,
    ),
    one('Mean queue time', 'ms', meanMilliseconds('nv_inference_queue_duration_us', of, BY_MODEL), MODEL_LEGEND),
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
    {
      title: 'Replicas',
      unit: 'short',
      queries: [
        { expression: servingPods(of), legend: 'available' },
        { expression: `count(up${series(of)})`, legend: 'all' },
      ],
    },
    one('Replicas that have loaded a model', 'short', loadedOn(of), MODEL_LEGEND),
    one('CPU utilization of the node', 'percentunit', `nv_cpu_utilization${series(of)}`, POD_LEGEND),
    ...(gpus
      ? [
          one('GPU utilization', 'percentunit', `nv_gpu_utilization${series(of)}`, `${POD_LEGEND} {{gpu_uuid}}`),
          one('GPU memory utilization', 'percentunit', gpuMemoryShare(of), `${POD_LEGEND} {{gpu_uuid}}`),
        ]
      : []),
  ];
}

/** Returns a dashboard in Grafana's JSON model. */
export function dashboard(of: SeriesOf, gpus: boolean): object {
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
    panels: panels(of, gpus).map(grafanaPanel),
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
    })),
  };
}
