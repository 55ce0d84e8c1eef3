import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import { ConfigMap } from '@pulumi/kubernetes/core/v1';
import type { Alert } from './alert';
import { alerts } from './alerts';
import { dashboard } from './dashboard';
import { UNUSED_SUMMARIES } from './latency';
import { AGENT_PORT, labels, selectorLabels } from '../names';
import type { ComponentContext } from '../names';
import { loadSignals } from './load-signals';
import { SCRAPE_SECONDS, type SeriesOf } from './promql';
import type { ServerSettings } from '../settings';
import { RECORD_SECONDS, sloRecords } from './slo';

/** The labels of the series that Prometheus scrapes through the ServiceMonitor. */
export const seriesSelector = ({ name, namespace }: ServerSettings): SeriesOf => ({ namespace: namespace.name, name });

type Monitoring = NonNullable<ServerSettings['monitoring']>;

/** Creates the objects for Prometheus and Grafana. */
export function createMonitoring(part: ComponentContext): void {
  const { monitoring } = part.settings;
  if (monitoring === undefined) return;
  const { name } = part.settings;
  const selector = { matchLabels: selectorLabels(name) };
  const endpoint = { path: '/metrics', interval: `${SCRAPE_SECONDS}s`, scrapeTimeout: '10s' };
  const metricRelabelings = [{ sourceLabels: ['__name__'], regex: UNUSED_SUMMARIES, action: 'drop' }];
  const create = (kind: string, resource: string, name: string, spec: object): void => {
    const { settings, namespace, options } = part;
    const metadata = { name, namespace, labels: { ...labels(settings.name), ...monitoring.selectorLabels } };
    new CustomResource(resource, { apiVersion: 'monitoring.coreos.com/v1', kind, metadata, spec }, options);
  };
  create('ServiceMonitor', `${name}-monitor`, name, {
    selector,
    endpoints: [{ port: 'metrics', ...endpoint, metricRelabelings }],
  });
  // No Service has the port of the agents. The job is NAMESPACE/NAME-agent (promql.ts).
  create('PodMonitor', `${name}-agent-monitor`, `${name}-agent`, {
    selector,
    podMetricsEndpoints: [{ port: AGENT_PORT.name, ...endpoint }],
  });
  create('PrometheusRule', `${name}-rules`, name, { groups: ruleGroups(part.settings, monitoring) });
  createDashboard(part, monitoring);
}

export interface RuleGroup {
  name: string;
  /** Default: that of Prometheus. */
  interval?: string;
  rules: Record<string, unknown>[];
}

export function ruleGroups(settings: ServerSettings, { runbookUrl, slo }: Monitoring): RuleGroup[] {
  const of = seriesSelector(settings);
  const records = (metrics: Record<string, string>): RuleGroup['rules'] =>
    Object.entries(metrics).map(([record, expr]) => ({ record, expr, labels: { job: of.name } }));
  const objectives = records(sloRecords(of, slo));
  return [
    ...(objectives.length === 0
      ? []
      : [{ name: `${of.namespace}.${of.name}.slo`, interval: `${RECORD_SECONDS}s`, rules: objectives }]),
    {
      name: `${of.namespace}.${of.name}.alerts`,
      rules: alerts(of, settings).map((alert) => alertRule(alert, of, runbookUrl)),
    },
  ];
}

function alertRule(
  { name, severity, forSeconds, expression, summary }: Alert,
  of: SeriesOf,
  runbookUrl: string,
): Record<string, unknown> {
  return {
    alert: name,
    expr: expression,
    for: forSeconds === 0 ? undefined : `${forSeconds}s`,
    labels: { severity, namespace: of.namespace, server: of.name },
    annotations: { summary, runbook_url: `${runbookUrl}#${name.toLowerCase()}` },
  };
}

/** Grafana's sidecar loads every ConfigMap with the label grafana_dashboard. */
function createDashboard({ settings, namespace, options }: ComponentContext, { slo }: Monitoring): void {
  const { name } = settings;
  const of = seriesSelector(settings);
  const drawn = {
    gpus: settings.gpusPerPod > 0,
    signals: settings.autoscaling === undefined ? [] : loadSignals(of, settings.autoscaling),
    p99Milliseconds: slo?.p99Milliseconds,
  };
  new ConfigMap(
    `${name}-dashboard`,
    {
      metadata: { name: `${name}-dashboard`, namespace, labels: { ...labels(name), grafana_dashboard: '1' } },
      data: { [`${of.namespace}-${name}.json`]: JSON.stringify(dashboard(of, drawn), null, 1) },
    },
    options,
  );
}
