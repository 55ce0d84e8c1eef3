import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { join } from 'node:path';
import { Progress } from '../../src/cli/progress';
import { ensurePython } from '../../src/install/python';
import { ManagedProcess } from '../../src/local/process/managed-process';
import { freePorts } from '../../src/local/process/ports';
import { ensureCollector } from '../../tools/toolchain/otelcol';
import type { Scratch } from './temp-dir';

const START_TIMEOUT_MS = 60_000;

/** A span in the JSON encoding of OTLP. */
export interface Span {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
}

interface Attribute {
  key: string;
  value: { stringValue?: string };
}

interface Batch {
  resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: Span[] }[] }[];
}

export interface Collector {
  /** Base address of its receiver of OTLP over HTTP. */
  endpoint: string;
  /** All spans until now. */
  spans: readonly Span[];
  /** The attributes of each resource that sent spans. */
  resources: readonly Record<string, string | undefined>[];
}

/** Starts a real OpenTelemetry collector, which decodes what it receives and exports it as JSON to this process. */
export async function testCollector(scratch: Scratch): Promise<Collector> {
  const spans: Span[] = [];
  const resources: Record<string, string | undefined>[] = [];
  const read = async (request: IncomingMessage): Promise<void> => {
    const { resourceSpans } = (await json(request)) as Batch;
    for (const { resource, scopeSpans } of resourceSpans) {
      resources.push(Object.fromEntries(resource.attributes.map(({ key, value }) => [key, value.stringValue])));
      spans.push(...scopeSpans.flatMap(({ spans: of }) => of));
    }
  };
  const backend = createServer((request, response) => {
    void read(request).then(() => response.setHeader('content-type', 'application/json').end('{}'));
  });
  await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve));
  scratch.defer(() => void backend.close());
  const [port = 0] = await freePorts(1);
  const endpoint = `http://127.0.0.1:${port}`;
  // JSON is valid YAML.
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: {
      otlp_http: {
        endpoint: `http://127.0.0.1:${(backend.address() as AddressInfo).port}`,
        encoding: 'json',
        compression: 'none',
      },
    },
    service: {
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  };
  const { python } = await ensurePython(new Progress(process.stderr, true).step(''));
  const collector = new ManagedProcess({
    name: 'otelcol',
    command: await ensureCollector(),
    args: [`--config=yaml:${JSON.stringify(config)}`],
    logFile: join(scratch.directory, 'otelcol.log'),
    python,
  });
  const stop = (): Promise<void> => collector.stop(2000);
  scratch.defer(stop);
  await collector.untilReady(() => receives(endpoint), START_TIMEOUT_MS, stop);
  return { endpoint, spans, resources };
}

/** Whether the receiver accepts an empty batch. */
async function receives(endpoint: string): Promise<boolean> {
  try {
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${endpoint}/v1/traces`, { method: 'POST', headers, body: '{}' })).ok;
  } catch {
    return false;
  }
}
