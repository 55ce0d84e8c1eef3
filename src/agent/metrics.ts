import type { AgentState } from '../release/agent-api';

/** Figures that the state does not have. */
export interface AgentCounts {
  downloads: { bytes: number; failures: number };
  loads: { ok: number; refused: number };
  /** Time of the last answer to a request for head.json, by Date.now(); before the first one, of the start. */
  headReadAt: number;
}

export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Sample = [labels: Record<string, string>, value: number];

export function formatMetrics(state: AgentState, { downloads, loads, headReadAt }: AgentCounts): string {
  const { release, head, home, trial, bytesOnDisk, startMs } = state;
  return [
    gauge(
      'serves_head',
      'Whether the pod serves the release that head.json names (0 or 1)',
      Number(release !== null && release === head?.release),
    ),
    gauge('head_generation', 'Generation of the last head.json that was read', head?.generation ?? 0),
    gauge('last_head_read_timestamp_seconds', 'When head.json was last read, or the start', headReadAt / 1000),
    gauge('trial_active', 'Whether a publisher has the pod try a release (0 or 1)', Number(trial !== null)),
    gauge('disk_bytes', 'Bytes of the files of releases on the disk of the pod', bytesOnDisk),
    metric(
      'gauge',
      'start_seconds',
      'Duration of each phase of the start',
      Object.entries(startMs).map(([phase, ms]) => [{ phase }, ms / 1000]),
    ),
    metric('gauge', 'release_info', 'The release that the pod serves, and the one that it returns to', [
      [{ release: release ?? '', home: home ?? '' }, 1],
    ]),
    metric('counter', 'download_failures_total', 'Downloads of a release that failed', [[{}, downloads.failures]]),
    metric('counter', 'download_bytes_total', 'Bytes of files that were downloaded', [[{}, downloads.bytes]]),
    metric(
      'counter',
      'loads_total',
      'Models that Triton loaded, or refused to load',
      Object.entries(loads).map(([result, count]) => [{ result }, count]),
    ),
  ].join('');
}

const gauge = (name: string, help: string, value: number): string => metric('gauge', name, help, [[{}, value]]);

function metric(type: 'gauge' | 'counter', name: string, help: string, samples: Sample[]): string {
  const full = `triton_agent_${name}`;
  const lines = samples.map(([labels, value]) => {
    const list = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`);
    return `${full}${list.length === 0 ? '' : `{${list.join()}}`} ${value}\n`;
  });
  return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${lines.join('')}`;
}
