import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import { ConfigMap } from '@pulumi/kubernetes/core/v1';
import type { Alert } from './alert';
import { alerts, type AlertLimits } from './alerts';
import { dashboard } from './dashboard';
import { UNUSED_SUMMARIES } from './latency';
import { AGENT_PORT, labels, selectorLabels } from '../names';
import type { ComponentContext } from '../names';
import { loadSignals, type LoadSignal } from './load-signals';
import { SCRAPE_SECONDS, type SeriesOf } from './promql';
import { DEFAULT_SCALING, type ServerSettings } from '../settings';
import { RECORD_SECONDS, sloRecords } from './slo';
import { loadSeconds, podReadySeconds } from '../timeouts';

const API = 'monitoring.coreos.com/v1';

/** The labels of the series that Prometheus scrapes through the ServiceMonitor. */
export const seriesSelector = ({ name, namespace }: ServerSettings): SeriesOf => ({ namespace: namespace.name, name });

type Monitoring = NonNullable<ServerSettings['monitoring']>;

/** Creates the objects for Prometheus and Grafana. */
export function createMonitoring(part: ComponentContext): void {
  const { monitoring } = part.settings;
  if (monitoring === undefined) return;
  createServiceMonitor(part, monitoring);
  createAgentMonitor(part, monitoring);
  createRules(part, monitoring);
  createDashboard(part, monitoring);
}

function createServiceMonitor({ settings, namespace, options }: ComponentContext, monitoring: Monitoring): void {
  const { name } = settings;
  new CustomResource(
    `${name}-monitor`,
    {
      apiVersion: API,
      kind: 'ServiceMonitor',
      metadata: { name, namespace, labels: { ...labels(name), ...monitoring.selectorLabels } },
      spec: {
        selector: { matchLabels: selectorLabels(name) },
        endpoints: [
          {
            port: 'metrics',
            path: '/metrics',
            interval: `${SCRAPE_SECONDS}s`,
            scrapeTimeout: '10s',
            metricRelabelings: [{ sourceLabels: ['__name__'], regex: UNUSED_SUMMARIES, action: 'drop' }],
          },
        ],
      },
    },
    options,
  );
}

/**
 * Makes Prometheus scrape the agents. A PodMonitor, because no Service has their port, which is for probes and metrics.
 * Its job is NAMESPACE/NAME-agent (promql.ts).
 */
function createAgentMonitor({ settings, namespace, options }: ComponentContext, monitoring: Monitoring): void {
  const name = `${settings.name}-agent`;
  new CustomResource(
    `${name}-monitor`,
    {
      apiVersion: API,
      kind: 'PodMonitor',
      metadata: { name, namespace, labels: { ...labels(settings.name), ...monitoring.selectorLabels } },
      spec: {
        selector: { matchLabels: selectorLabels(settings.name) },
        podMetricsEndpoints: [
          {
            port: AGENT_PORT.name,
            path: '/metrics',
            interval: `${SCRAPE_SECONDS}s`,
            scrapeTimeout: '10s',
          },
        ],
      },
    },
    options,
  );
}

function createRules({ settings, namespace, options }: ComponentContext, monitoring: Monitoring): void {
  const { name } = settings;
  new CustomResource(
    `${name}-rules`,
    {
      apiVersion: API,
      kind: 'PrometheusRule',
      metadata: { name, namespace, labels: { ...labels(name), ...monitoring.selectorLabels } },
      spec: { groups: ruleGroups(settings, monitoring) },
    },
    options,
  );
}

/** One rule group of Prometheus. */
export interface RuleGroup {
  name: string;
  /** Default: that of Prometheus. */
  interval?: string;
  rules: Record<string, unknown>[];
}

/** The signals of the autoscaler; none without an autoscaler. */
const followedSignals = (settings: ServerSettings): LoadSignal[] =>
  settings.autoscaling === undefined ? [] : loadSignals(seriesSelector(settings), settings.autoscaling);

/** Returns the rule groups in Prometheus' format. */
export function ruleGroups(settings: ServerSettings, { runbookUrl, slo = {} }: Monitoring): RuleGroup[] {
  const of = seriesSelector(settings);
  const { autoscaling = DEFAULT_SCALING } = settings;
  const limits: AlertLimits = {
    queueMilliseconds: autoscaling.queueMilliseconds,
    gpusPerPod: settings.gpusPerPod,
    podReadySeconds: podReadySeconds(settings),
    loadSeconds: loadSeconds(settings),
    slo,
  };
  const records = (metrics: Record<string, string>): RuleGroup['rules'] =>
    Object.entries(metrics).map(([record, expr]) => ({ record, expr, labels: { job: of.name } }));
  const objectives = records(sloRecords(of, slo));
  return [
    ...(objectives.length === 0
      ? []
      : [{ name: `${of.namespace}.${of.name}.slo`, interval: `${RECORD_SECONDS}s`, rules: objectives }]),
    {
      name: `${of.namespace}.${of.name}.alerts`,
      rules: alerts(of, limits).map((alert) => alertRule(alert, of, runbookUrl)),
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
    signals: followedSignals(settings),
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
