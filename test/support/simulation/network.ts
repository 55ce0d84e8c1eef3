import type { AgentTriton } from '../../../src/agent/agent';
import { TritonError, type ModelIndexEntry } from '../../../src/triton/client';
import type { RuleTriton } from '../rule-triton';
import { hashText, type Clock, type Program, type TimeoutSignal } from './clock';
import { servers } from './servers';

/** What can happen to a request. */
export const EFFECTS = [
  'is lost',
  'is applied without an answer',
  'is applied late',
  'is answered late',
  'is applied twice',
  'kills its sender',
] as const;
export type Effect = (typeof EFFECTS)[number] | 'gets wrong bytes';

/** Requests, as faults name them. */
export const S3_REQUESTS = ['get head', 'get manifest', 'read object'] as const;
export const PUBLISHER_REQUESTS = ['put head', 'put manifest', 'put object', 'get head', 'list'] as const;
export const CONTROL_REQUESTS = ['state', 'begin trial', 'renew trial', 'end trial'] as const;
export const TRITON_REQUESTS = ['load', 'unload', 'index'] as const;

export interface Fault {
  /** The program that sends the request. */
  client: string;
  request: string;
  /** Which of these requests, from 0. */
  nth: number;
  effect: Effect;
  ms: number;
}

/** No response: the connection was refused or reset, or the time was over. */
export class NoResponseError extends Error {
  override readonly name = 'NoResponseError';
}

interface CallOptions<T> {
  request: string;
  /** The server when the request arrives. */
  to: () => Program | undefined;
  apply: (fault: Fault | undefined) => T | Promise<T>;
  timeoutMs: number;
  /** Longest time until the request arrives, without faults. */
  slowestMs?: number;
}

/** Carries requests between programs, with delays from the seed and the faults of a scenario. */
export class Network {
  /** Requests that have not arrived yet. */
  underWay = 0;
  private readonly counts = new Map<string, number>();
  private faults = new Map<string, Fault>();

  constructor(
    private readonly clock: Clock,
    private readonly seed: number,
    private readonly log: (text: string) => void,
  ) {}

  /** From now on these requests, counted from here, suffer. */
  begin(faults: readonly Fault[]): void {
    this.counts.clear();
    this.faults = new Map(faults.map((fault) => [`${fault.client} ${fault.request} ${fault.nth}`, fault]));
  }

  call<T>({ request, to, apply, timeoutMs, slowestMs = 20 }: CallOptions<T>): Promise<T> {
    const { clock } = this;
    const from = clock.current;
    const kind = `${from.name} ${request}`;
    const nth = this.counts.get(kind) ?? 0;
    this.counts.set(kind, nth + 1);
    const id = `${kind} ${nth}`;
    const fault = this.faults.get(id);
    const delay = 1 + (hashText(id, this.seed) % slowestMs);
    return new Promise<T>((resolve, reject) => {
      let isOpen = true;
      const end = (settle: () => void): void => {
        if (!isOpen) return;
        isOpen = false;
        timer.isCancelled = true;
        settle();
      };
      const fail = (why: string): void => {
        end(() => reject(new NoResponseError(`${request}: ${why}`)));
      };
      const timer = clock.set(timeoutMs, () => fail('no response in time'));
      const respond = (settle: () => void): void => {
        if (!isOpen || fault?.effect === 'is applied without an answer') return;
        clock.deliver(from, fault?.effect === 'is answered late' ? fault.ms : delay, () => end(settle));
      };
      const arrive = (): void => {
        const server = to();
        if (server === undefined || server.isDead) {
          this.underWay -= 1;
          clock.deliver(from, delay, () => fail('connection refused'));
          return;
        }
        if (server.frozenUntil > clock.now) {
          clock.deliver(clock.outside, server.frozenUntil - clock.now, arrive);
          return;
        }
        clock.current = server;
        this.underWay -= 1;
        this.log(id);
        void (async () => apply(fault))().then(
          (result) => respond(() => resolve(result)),
          (error: unknown) => respond(() => reject(error instanceof Error ? error : new Error(String(error)))),
        );
      };
      const send = (ms: number): void => {
        this.underWay += 1;
        clock.deliver(clock.outside, ms, arrive);
      };
      if (fault !== undefined) this.log(`${id} ${fault.effect} ${fault.ms}`);
      switch (fault?.effect) {
        case 'is lost':
          clock.deliver(from, fault.ms, () => fail('connection reset'));
          break;
        case 'is applied without an answer':
          send(delay);
          clock.deliver(from, delay + fault.ms, () => fail('connection reset'));
          break;
        case 'is applied late':
          send(fault.ms);
          break;
        case 'is applied twice':
          send(delay);
          send(delay + fault.ms);
          break;
        case 'kills its sender':
          send(delay);
          from.die();
          break;
        default:
          send(delay);
      }
    });
  }

  /** `fetch` for the control API of agents: `http://NAME/...`. */
  fetch = async (
    url: string,
    init: { method: string; body: string | null; signal: unknown },
    find: (name: string) => Program | undefined,
  ): Promise<object> => {
    const { hostname, pathname } = new URL(url);
    const request = CONTROL_NAMES[init.method] ?? 'other';
    const { status, body } = await this.call({
      request,
      to: () => find(hostname),
      apply: () => {
        const handler = servers.of(this.clock.current);
        if (handler === undefined) throw new NoResponseError('connection refused');
        return handler({ method: init.method, url: pathname, body: init.body ?? '' });
      },
      timeoutMs: (init.signal as TimeoutSignal).timeoutMs,
    });
    return { status, text: () => Promise.resolve(body) };
  };
}

const CONTROL_NAMES: Record<string, string> = {
  GET: 'state',
  POST: 'begin trial',
  PUT: 'renew trial',
  DELETE: 'end trial',
};

/** An agent's client of its Triton. */
export class TritonClient implements AgentTriton {
  constructor(
    private readonly network: Network,
    private readonly program: Program,
    private readonly triton: RuleTriton,
  ) {}

  repositoryIndex({ timeoutMs = 10_000 }: { timeoutMs?: number } = {}): Promise<ModelIndexEntry[]> {
    return this.send('index', timeoutMs, () => this.triton.repositoryIndex());
  }

  loadModel(model: string, { timeoutMs = 60_000 }: { timeoutMs?: number } = {}): Promise<void> {
    return this.send('load', timeoutMs, () => this.triton.loadModel(model));
  }

  unloadModel(model: string): Promise<void> {
    return this.send('unload', 10_000, () => this.triton.unloadModel(model));
  }

  modelReady(model: string, version?: number): Promise<boolean> {
    return this.send('ready', 10_000, () => this.triton.modelReady(model, version));
  }

  modelConfig(): ReturnType<AgentTriton['modelConfig']> {
    return this.send('config', 10_000, () => this.triton.modelConfig());
  }

  statistics(): ReturnType<AgentTriton['statistics']> {
    return this.send('statistics', 10_000, () => this.triton.statistics());
  }

  infer(...args: Parameters<AgentTriton['infer']>): ReturnType<AgentTriton['infer']> {
    return this.send('infer', 10_000, () => this.triton.infer(...args));
  }

  private async send<T>(request: string, timeoutMs: number, apply: () => Promise<T>): Promise<T> {
    try {
      const slowestMs = request === 'load' ? 1500 : 5;
      return await this.network.call({ request, to: () => this.program, apply, timeoutMs, slowestMs });
    } catch (error) {
      if (!(error instanceof NoResponseError)) throw error;
      throw new TritonError(error.message, { status: 'unreachable' });
    }
  }
}
