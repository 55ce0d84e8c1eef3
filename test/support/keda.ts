import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KubernetesObject } from '@kubernetes/client-node';
import { load } from 'js-yaml';
import { isHealthy } from '../../src/local/process/health-check';
import { freePorts } from '../../src/local/process/ports';
import { ensureKeda, kedaDefinitions } from '../../tools/toolchain/keda';
import type { Authority } from './authority';
import type { ControlPlane } from './control-plane';
import type { Scratch } from './temp-dir';
import { until } from './wait-for';

const NAMESPACE = 'keda';
const SERVICE = 'keda-metrics-apiserver';
const API = { group: 'external.metrics.k8s.io', version: 'v1beta1' };

/** Flags with which kube-apiserver proves who it is to the API servers behind it, such as KEDA's adapter. */
export function aggregationFlags(scratch: Scratch, authority: Authority): string[] {
  const directory = authority.write(join(scratch.directory, 'front-proxy'));
  return [
    `--requestheader-client-ca-file=${join(directory, 'ca.crt')}`,
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${join(directory, 'tls.crt')}`,
    `--proxy-client-key-file=${join(directory, 'tls.key')}`,
  ];
}

/**
 * Starts KEDA's operator and its API server of external metrics as processes on loopback, with the permissions of the
 * administrator. The API server of the control plane needs `aggregationFlags`.
 * @returns the port of the operator's metrics
 */
export async function startKeda(scratch: Scratch, plane: ControlPlane, authority: Authority): Promise<number> {
  const { operator, adapter } = await ensureKeda();
  for (const definition of await kedaDefinitions()) await plane.access.define(load(definition) as object);
  await until('KEDA can list its objects', async () => {
    await plane.client.objects.list('keda.sh/v1alpha1', 'ScaledObject');
    return true;
  });

  const [metrics, health, values, api, apiMetrics] = (await freePorts(5)) as [number, number, number, number, number];
  const certificates = authority.write(join(scratch.directory, 'keda'), [`${SERVICE}.${NAMESPACE}.svc`]);
  const kubeconfig = plane.access.kubeconfigFile();
  const env = {
    PATH: process.env['PATH'],
    KUBECONFIG: kubeconfig,
    WATCH_NAMESPACE: '',
    POD_NAMESPACE: NAMESPACE,
    KEDA_CLUSTER_OBJECT_NAMESPACE: NAMESPACE,
  };
  await plane.client.core.createNamespace({ body: { metadata: { name: NAMESPACE } } });
  const operatorArguments = [
    `--metrics-bind-address=127.0.0.1:${metrics}`,
    `--health-probe-bind-address=127.0.0.1:${health}`,
    `--metrics-service-bind-address=127.0.0.1:${values}`,
    `--cert-dir=${certificates}`,
  ];
  await plane.processes.start({ name: 'keda-operator', command: operator, args: operatorArguments, env }, () =>
    isHealthy(`http://127.0.0.1:${health}/readyz`),
  );
  const adapterArguments = [
    '--bind-address=127.0.0.1',
    `--secure-port=${api}`,
    `--port=${apiMetrics}`,
    `--cert-dir=${certificates}`,
    `--tls-cert-file=${join(certificates, 'tls.crt')}`,
    `--tls-private-key-file=${join(certificates, 'tls.key')}`,
    ...['authentication', 'authorization', 'lister'].map((what) => `--${what}-kubeconfig=${kubeconfig}`),
    `--metrics-service-address=127.0.0.1:${values}`,
  ];
  await plane.processes.start({ name: 'keda-adapter', command: adapter, args: adapterArguments, env }, () =>
    isHealthy(`http://127.0.0.1:${apiMetrics}/metrics`),
  );
  await register(plane, api, readFileSync(authority.caFile).toString('base64'));
  return metrics;
}

/** Makes the API server forward requests for external metrics to the adapter. */
async function register(plane: ControlPlane, port: number, caBundle: string): Promise<void> {
  // Addresses of Endpoints cannot be on loopback.
  const service = { spec: { type: 'ExternalName', externalName: 'localhost' }, metadata: { name: SERVICE } };
  await plane.client.core.createNamespacedService({ namespace: NAMESPACE, body: service });
  const { group, version } = API;
  const identity = {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: `${version}.${group}` },
  };
  await plane.client.objects.create({
    ...identity,
    spec: {
      group,
      version,
      service: { name: SERVICE, namespace: NAMESPACE, port },
      caBundle,
      groupPriorityMinimum: 100,
      versionPriority: 100,
    },
  } as KubernetesObject);
  await until('the API server reaches KEDA', async () => {
    const { status } = (await plane.client.objects.read(identity)) as {
      status?: { conditions?: { type: string; status: string }[] };
    };
    return status?.conditions?.some((one) => one.type === 'Available' && one.status === 'True') === true;
  });
}
