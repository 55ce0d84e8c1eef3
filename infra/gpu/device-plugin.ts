import { DaemonSet } from '@pulumi/kubernetes/apps/v1/daemonSet';
import type * as pulumi from '@pulumi/pulumi';
import { GPU_POOL_LABEL } from './gpu-labels';

const IMAGE = 'nvcr.io/nvidia/k8s-device-plugin:v0.20.0';
const SOCKETS = '/var/lib/kubelet/device-plugins';

/**
 * NVIDIA's device plugin on the nodes of managed groups. Without it, these nodes offer no nvidia.com/gpu: AL2023 includes
 * the driver, but not the plugin. It uses a folder of the node, which the namespace kube-system admits.
 */
export function devicePlugin(name: string, pools: string[], options: pulumi.CustomResourceOptions): DaemonSet {
  const labels = { 'app.kubernetes.io/name': 'nvidia-device-plugin', 'app.kubernetes.io/part-of': 'triton-serving' };
  return new DaemonSet(
    name,
    {
      metadata: { namespace: 'kube-system', labels },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
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
            containers: [
              {
                name: 'device-plugin',
                image: IMAGE,
                resources: { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '128Mi' } },
                securityContext: {
                  allowPrivilegeEscalation: false,
                  readOnlyRootFilesystem: true,
                  capabilities: { drop: ['ALL'] },
                },
                volumeMounts: [{ name: 'sockets', mountPath: SOCKETS }],
              },
            ],
            volumes: [{ name: 'sockets', hostPath: { path: SOCKETS, type: 'Directory' } }],
          },
        },
      },
    },
    options,
  );
}
