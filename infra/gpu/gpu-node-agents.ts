import { CustomResource } from '@pulumi/kubernetes/apiextensions/customResource';
import * as apps from '@pulumi/kubernetes/apps/v1';
import * as core from '@pulumi/kubernetes/core/v1';
import type { input } from '@pulumi/kubernetes/types';
import * as pulumi from '@pulumi/pulumi';
import { GPU_POOL_LABEL } from './gpu-labels';
import type { GpuNodePoolSettings } from '../settings/types';
import type { MonitoringArgs } from '../triton/args';

/** Images of the agents on GPU nodes of managed groups. */
const AGENT_IMAGES = {
  devicePlugin: 'nvcr.io/nvidia/k8s-device-plugin:v0.20.0',
  dcgmExporter: 'nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless',
} as const;

/** How Prometheus finds and scrapes a component. */
export type ScrapeArgs = Required<Pick<MonitoringArgs, 'selectorLabels' | 'scrapeSeconds'>>;

export interface GpuNodeAgentsArgs {
  /** Name in the labels of the agents. Default: the name of the component. */
  title?: string;
  /** Pools of managed node groups. */
  pools: GpuNodePoolSettings[];
  /** Makes Prometheus scrape DCGM exporter. Default: it is not scraped. */
  monitoring?: ScrapeArgs | undefined;
}

const NAMESPACE = 'gpu-node-agents';
const DCGM_PORT = 9400;

/**
 * NVIDIA's device plugin on nodes whose operating system does not include it, and DCGM exporter where it is enabled.
 * Both need access to the node, so their namespace admits privileged pods.
 */
export class GpuNodeAgents extends pulumi.ComponentResource {
  constructor(name: string, args: GpuNodeAgentsArgs, options?: pulumi.ComponentResourceOptions) {
    super('triton-serving:infra:GpuNodeAgents', name, {}, options);
    const namespace = new core.Namespace(
      name,
      { metadata: { name: NAMESPACE, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } } },
      { parent: this },
    );
    const inherited = { parent: this, dependsOn: [namespace] };
    const { title = name } = args;
    // The number of slices is a setting of the plugin, so each number gets its own DaemonSet.
    const bySlices = new Map<number, string[]>();
    for (const { ami, name: pool, timeSlices } of args.pools) {
      if (ami === 'AL2023') bySlices.set(timeSlices, [...(bySlices.get(timeSlices) ?? []), pool]);
    }
    for (const [slices, pools] of bySlices) this.devicePlugin(name, { title, slices, pools }, inherited);
    const watched = args.pools.filter(({ dcgmExporter }) => dcgmExporter).map(({ name: pool }) => pool);
    if (watched.length > 0) this.dcgmExporter(name, { title, pools: watched, monitoring: args.monitoring }, inherited);
    this.registerOutputs();
  }

  private devicePlugin(
    component: string,
    { title, slices, pools }: { title: string; slices: number; pools: string[] },
    options: pulumi.CustomResourceOptions,
  ): void {
    const [name, label] = [component, title].map((start) => `${start}-device-plugin-${slices}`) as [string, string];
    const sharing =
      slices === 1 ? undefined : { timeSlicing: { resources: [{ name: 'nvidia.com/gpu', replicas: slices }] } };
    const settings = new core.ConfigMap(
      name,
      {
        metadata: { namespace: NAMESPACE, labels: getLabels(label) },
        // The plugin reads YAML, and JSON is valid YAML.
        data: { 'config.yaml': JSON.stringify({ version: 'v1', sharing }) },
      },
      options,
    );
    new apps.DaemonSet(
      name,
      daemonSet(label, pools, {
        containers: [
          {
            name: 'device-plugin',
            image: AGENT_IMAGES.devicePlugin,
            args: ['--config-file=/settings/config.yaml', '--fail-on-init-error=true'],
            resources: { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '128Mi' } },
            securityContext: {
              allowPrivilegeEscalation: false,
              readOnlyRootFilesystem: true,
              capabilities: { drop: ['ALL'] },
            },
            volumeMounts: [
              { name: 'device-plugins', mountPath: '/var/lib/kubelet/device-plugins' },
              { name: 'settings', mountPath: '/settings', readOnly: true },
            ],
          },
        ],
        volumes: [
          { name: 'device-plugins', hostPath: { path: '/var/lib/kubelet/device-plugins', type: 'Directory' } },
          { name: 'settings', configMap: { name: settings.metadata.name } },
        ],
      }),
      options,
    );
  }

  private dcgmExporter(
    component: string,
    { title, pools, monitoring }: { title: string; pools: string[]; monitoring: ScrapeArgs | undefined },
    options: pulumi.CustomResourceOptions,
  ): void {
    const [name, label] = [component, title].map((start) => `${start}-dcgm-exporter`) as [string, string];
    new apps.DaemonSet(
      name,
      daemonSet(label, pools, {
        containers: [
          {
            name: 'dcgm-exporter',
            image: AGENT_IMAGES.dcgmExporter,
            env: [{ name: 'DCGM_EXPORTER_LISTEN', value: `:${DCGM_PORT}` }],
            ports: [{ name: 'metrics', containerPort: DCGM_PORT }],
            readinessProbe: { httpGet: { path: '/health', port: 'metrics' }, periodSeconds: 15 },
            livenessProbe: {
              httpGet: { path: '/health', port: 'metrics' },
              initialDelaySeconds: 60,
              periodSeconds: 30,
            },
            resources: { requests: { cpu: '100m', memory: '256Mi' }, limits: { memory: '512Mi' } },
            securityContext: { capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] } },
          },
        ],
      }),
      options,
    );
    if (monitoring === undefined) return;
    const { scrapeSeconds, selectorLabels } = monitoring;
    new CustomResource(
      `${name}-monitor`,
      {
        apiVersion: 'monitoring.coreos.com/v1',
        kind: 'PodMonitor',
        metadata: { name: label, namespace: NAMESPACE, labels: { ...getLabels(label), ...selectorLabels } },
        spec: {
          selector: { matchLabels: getLabels(label) },
          podMetricsEndpoints: [
            {
              port: 'metrics',
              path: '/metrics',
              interval: `${scrapeSeconds}s`,
              relabelings: [{ sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' }],
            },
          ],
        },
      },
      options,
    );
  }
}

const getLabels = (name: string): Record<string, string> => ({
  'app.kubernetes.io/name': name,
  'app.kubernetes.io/part-of': 'triton-serving',
});

/** A DaemonSet for every node of these pools. It tolerates all taints and has priority over all other pods. */
function daemonSet(name: string, pools: string[], pod: input.core.v1.PodSpec): apps.DaemonSetArgs {
  const labels = getLabels(name);
  return {
    metadata: { namespace: NAMESPACE, labels },
    spec: {
      selector: { matchLabels: labels },
      updateStrategy: { type: 'RollingUpdate' },
      template: {
        metadata: { labels },
        spec: {
          ...pod,
          priorityClassName: 'system-node-critical',
          automountServiceAccountToken: false,
          tolerations: [{ operator: 'Exists' }],
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchExpressions: [{ key: GPU_POOL_LABEL, operator: 'In', values: pools }] }],
              },
            },
          },
        },
      },
    },
  };
}
