import type { ServerSettings } from './settings';

/** Variable with the name of the pod, which traces contain. Only with `tracing`. */
export const POD_NAME_VARIABLE = 'POD_NAME';

/** Triton's parser reads a 32-bit integer. */
const RAREST = 2 ** 31 - 1;

/** Triton traces one request of this number; with 0 only those with a `traceparent`, which it always traces. */
const oneRequestOf = (sampleRate: number): number =>
  sampleRate === 0 ? 0 : Math.min(RAREST, Math.round(1 / sampleRate));

/** Flags of tritonserver that send spans to a receiver of OTLP over HTTP, the only protocol that Triton has for them. */
export function traceFlags({
  name,
  namespace,
  tracing,
}: Pick<ServerSettings, 'name' | 'namespace' | 'tracing'>): string[] {
  if (tracing === undefined) return [];
  const { otlpEndpoint, sampleRate } = tracing;
  return [
    'mode=opentelemetry',
    'level=TIMESTAMPS',
    `rate=${oneRequestOf(sampleRate)}`,
    // As with OTEL_EXPORTER_OTLP_ENDPOINT.
    `opentelemetry,url=${otlpEndpoint.replace(/\/$/, '')}/v1/traces`,
    `opentelemetry,resource=service.name=${name}`,
    `opentelemetry,resource=k8s.namespace.name=${namespace.name}`,
    // Kubernetes substitutes the name of the pod.
    `opentelemetry,resource=k8s.pod.name=$(${POD_NAME_VARIABLE})`,
  ].map((setting) => `--trace-config=${setting}`);
}

/** The namespace of a Service in the cluster, of an address such as http://collector.monitoring.svc:4318. */
export function serviceNamespace(url: string): string | undefined {
  return /^[^.]+\.([^.]+)\.svc(\..+)?$/.exec(new URL(url).hostname)?.[1];
}
