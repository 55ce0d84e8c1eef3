import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isHealthy } from '../../src/local/process/health-check';
import type { ManagedProcess } from '../../src/local/process/managed-process';
import { freePorts } from '../../src/local/process/ports';
import { ensurePrometheus } from '../../tools/toolchain/promtool';
import type { ClusterProcesses } from './api-server';

const STOP_GRACE_MS = 10_000;

/** One series of an answer, with pairs of seconds and values. */
export interface RangeSeries {
  metric: Record<string, string>;
  values: [at: number, value: string][];
}

/** An alert that is pending or firing. */
export interface ActiveAlert {
  labels: Record<string, string>;
  state: 'pending' | 'firing';
}

export interface RuleState {
  name: string;
  type: 'alerting' | 'recording';
  health: 'ok' | 'err' | 'unknown';
  lastError?: string;
  state?: 'inactive' | 'pending' | 'firing';
}

/** A real Prometheus server on loopback, which keeps its data while it is stopped. */
export class TestPrometheus {
  private process: ManagedProcess | undefined;
  private current: number;

  private constructor(
    private readonly processes: ClusterProcesses,
    private readonly command: string,
    private readonly directory: string,
    private readonly port: number,
    private readonly flags: readonly string[],
  ) {
    this.current = port;
  }

  /** Prepares a server, which is not started yet. */
  static async create(
    processes: ClusterProcesses,
    directory: string,
    flags: readonly string[] = [],
  ): Promise<TestPrometheus> {
    const [port = 0] = await freePorts(1);
    return new TestPrometheus(processes, await ensurePrometheus(), directory, port, flags);
  }

  get url(): string {
    return `http://127.0.0.1:${this.current}`;
  }

  /** @param configuration as in prometheus.yml */
  configure(configuration: object): void {
    // JSON is valid YAML.
    writeFileSync(this.file, JSON.stringify(configuration));
  }

  private get file(): string {
    return join(this.directory, 'prometheus.yml');
  }

  /** @param port another one than the usual one, where KEDA does not find the server */
  async start(port = this.port): Promise<void> {
    this.current = port;
    const args = [
      `--config.file=${this.file}`,
      `--storage.tsdb.path=${join(this.directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      ...this.flags,
    ];
    this.process = await this.processes.start({ name: 'prometheus', command: this.command, args }, () =>
      isHealthy(`${this.url}/-/ready`),
    );
  }

  async stop(): Promise<void> {
    await this.process?.stop(STOP_GRACE_MS);
  }

  /** The series of a query, with their values of the last `seconds`. */
  async range(query: string, seconds: number, stepSeconds: number): Promise<RangeSeries[]> {
    const end = Date.now() / 1000;
    const parameters = { query, start: String(end - seconds), end: String(end), step: String(stepSeconds) };
    const { result } = (await this.get('query_range', parameters)) as { result: RangeSeries[] };
    return result;
  }

  async rules(): Promise<RuleState[]> {
    const { groups } = (await this.get('rules')) as { groups: { rules: RuleState[] }[] };
    return groups.flatMap(({ rules }) => rules);
  }

  async alerts(): Promise<ActiveAlert[]> {
    return ((await this.get('alerts')) as { alerts: ActiveAlert[] }).alerts;
  }

  private async get(path: string, parameters: Record<string, string> = {}): Promise<unknown> {
    const response = await fetch(`${this.url}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`);
    const { data, error } = (await response.json()) as { data?: unknown; error?: string };
    if (error !== undefined) throw new Error(`${error}: ${JSON.stringify(parameters)}`);
    return data;
  }
}
