import { Counter, Gauge, Registry } from 'prom-client';
import type { AgentState } from '../release/agent-api';

/** Figures that the state does not have. */
export interface AgentCounts {
  downloads: { bytes: number; failures: number };
  loads: { ok: number; refused: number };
  /** Time of the last answer to a request for head.json, by Date.now(); before the first one, of the start. */
  headReadAt: number;
}

const PREFIX = 'triton_agent_';

/** Prometheus metrics, as text. Taken from the state when they are asked for, so that both always agree. */
export class AgentMetrics {
  private readonly registry = new Registry();

  constructor(read: () => { state: AgentState; counts: AgentCounts }) {
    const gauge = (name: string, help: string, value: () => number | undefined): void => {
      this.add(Gauge, name, help, [], () => [[{}, value()]]);
    };
    const state = (): AgentState => read().state;
    gauge('serves_head', 'Whether the pod serves the release that head.json names (0 or 1)', () =>
      Number(state().release !== null && state().release === state().head?.release),
    );
    gauge('head_generation', 'Generation of the last head.json that was read', () => state().head?.generation);
    gauge(
      'last_head_read_timestamp_seconds',
      'When head.json was last read, or the start',
      () => read().counts.headReadAt / 1000,
    );
    gauge('trial_active', 'Whether a publisher has the pod try a release (0 or 1)', () =>
      Number(state().trial !== null),
    );
    gauge('disk_bytes', 'Bytes of the files of releases on the disk of the pod', () => state().bytesOnDisk);
    this.add(Gauge, 'start_seconds', 'Duration of each phase of the start', ['phase'], () =>
      Object.entries(state().startMs).map(([phase, ms]) => [{ phase }, ms / 1000]),
    );
    this.add(
      Gauge,
      'release_info',
      'The release that the pod serves, and the one that it returns to',
      ['release', 'home'],
      () => [[{ release: state().release ?? '', home: state().home ?? '' }, 1]],
    );
    this.add(Counter, 'download_failures_total', 'Downloads of a release that failed', [], () => [
      [{}, read().counts.downloads.failures],
    ]);
    this.add(Counter, 'download_bytes_total', 'Bytes of files that were downloaded', [], () => [
      [{}, read().counts.downloads.bytes],
    ]);
    this.add(Counter, 'loads_total', 'Models that Triton loaded, or refused to load', ['result'], () =>
      Object.entries(read().counts.loads).map(([result, count]) => [{ result }, count]),
    );
  }

  /** Content type of `read`. */
  get contentType(): string {
    return this.registry.contentType;
  }

  read(): Promise<string> {
    return this.registry.metrics();
  }

  private add(
    Kind: typeof Gauge | typeof Counter,
    name: string,
    help: string,
    labelNames: string[],
    values: () => Values,
  ): void {
    new Kind({
      name: `${PREFIX}${name}`,
      help,
      labelNames,
      registers: [this.registry],
      collect(this: Gauge | Counter): void {
        this.reset();
        for (const [labels, value] of values()) if (value !== undefined) this.inc(labels, value);
      },
    });
  }
}

type Values = [labels: Record<string, string>, value: number | undefined][];
