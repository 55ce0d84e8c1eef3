import type { Replica, ReplicaSource } from './cluster/source';
import { UserError } from '../core/errors';
import type { AgentState, AgentStatistics, TrialRenewal, TrialRequest } from '../release/agent-api';

/** The agent of one replica. Only replicas that get requests are asked to try a release. */
export type AgentAddress = Pick<Replica, 'name' | 'uid' | 'url'> & Partial<Pick<Replica, 'ready'>>;

export type AgentSource = Pick<ReplicaSource, 'describe'> & { list(): Promise<AgentAddress[]> };

/** An answer of an agent other than success, or no answer (status 0). */
export class AgentError extends UserError {
  override readonly name = 'AgentError';
  constructor(
    message: string,
    readonly status: number,
    readonly body: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

/** Another publisher is trying a release, or has made another one the current one. */
export class AnotherPublisherError extends UserError {
  override readonly name = 'AnotherPublisherError';
  constructor(message: string, { cause, hint = '' }: { cause?: unknown; hint?: string } = {}) {
    super(message, { hint: `run the command again${hint}`, cause });
  }
}

const TIMEOUT_MS = 10_000;

/** Calls the control API of an agent. */
export class AgentClient {
  constructor(private readonly address: Pick<AgentAddress, 'name' | 'url'>) {}

  get name(): string {
    return this.address.name;
  }

  getState(): Promise<AgentState> {
    return this.send('GET', '/v1/state');
  }

  getStatistics(): Promise<AgentStatistics> {
    return this.send('GET', '/v1/statistics') as Promise<AgentStatistics>;
  }

  begin(request: TrialRequest): Promise<AgentState> {
    return this.send('POST', '/v1/trials', request);
  }

  renew(id: string, renewal: TrialRenewal): Promise<AgentState> {
    return this.send('PUT', `/v1/trials/${id}`, renewal);
  }

  end(id: string, secret: string): Promise<AgentState> {
    return this.send('DELETE', `/v1/trials/${id}`, { secret });
  }

  private async send(method: string, path: string, body?: object): Promise<AgentState> {
    const { name, url } = this.address;
    let status: number;
    let text: string;
    try {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: body === undefined ? {} : { 'content-type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      ({ status } = response);
      text = await response.text();
    } catch (cause) {
      throw new AgentError(`the agent of ${name} does not answer: ${getReason(cause)}`, 0);
    }
    const content = parseObject(text);
    // A port-forward answers with a text if it does not reach the agent.
    if (content === undefined) {
      throw new AgentError(`the agent of ${name} does not answer: ${text.slice(0, 300).trim()}`, 0);
    }
    if (status >= 200 && status < 300) return content as unknown as AgentState;
    throw new AgentError(`the agent of ${name} refuses: ${String(content['error'])}`, status, content);
  }
}

/** The states of agents; undefined for one that does not answer. */
export const getStates = (agents: readonly AgentAddress[]): Promise<(AgentState | undefined)[]> =>
  Promise.all(agents.map((agent) => new AgentClient(agent).getState().catch(() => undefined)));

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const content: unknown = JSON.parse(text);
    return typeof content === 'object' && content !== null ? (content as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** fetch says only "fetch failed"; the reason is in the cause. */
function getReason(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message : message;
}
