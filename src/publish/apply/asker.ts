import type { GoldenRequest } from '../../model/golden';
import type { Replica } from '../../cluster/source';
import type { TritonHttpClient } from '../../triton/http';
import { askModel, type Asked } from '../../release/ask';
import { readRequests, type DesiredGolden } from '../release/golden-object';
import type { ServedModel } from './rollout';

export interface AskerOptions {
  golden: (model: string) => DesiredGolden | undefined;
  /** How the model was asked for the previous release. */
  before: (model: string) => Asked | undefined;
  /** Models that are asked on every replica, even if the replica serves them already. */
  due: ReadonlySet<string>;
  signal: AbortSignal | undefined;
  onAsked: ((replica: string, model: string, result: string) => void) | undefined;
}

/** Asks models during a rollout and records the results. */
export class Asker {
  /** Model -> how it was asked. */
  readonly asked = new Map<string, Asked>();
  private readonly done = new Set<string>();
  /** Model -> its golden requests, read once for all replicas. */
  private readonly requests = new Map<string, GoldenRequest[]>();

  constructor(private readonly options: AskerOptions) {}

  /**
   * Asks a model that a replica serves, if the model or one of its steps was just loaded, or if the model is due on the
   * replica.
   * @throws WrongAnswerError
   */
  readonly ask = async (
    replica: Replica,
    client: TritonHttpClient,
    model: ServedModel,
    isNew: boolean,
  ): Promise<void> => {
    const { name } = model;
    const id = `${replica.uid ?? replica.name} ${name}`;
    if (!isNew && (this.done.has(id) || !this.options.due.has(name))) return;
    const { signal, before, onAsked } = this.options;
    const { asked, text, hint } = await askModel(client, model, await this.getRequests(name), {
      replica: replica.name,
      zerosWereAnswered: (this.asked.get(name) ?? before(name)) === 'zeros',
      signal,
    });
    this.done.add(id);
    // Only the first replica prints the hint; the others would repeat it.
    const next = hint === undefined || this.asked.has(name) ? '' : `\n       -> ${hint}`;
    onAsked?.(replica.name, name, `${text}${next}`);
    if (this.asked.get(name) !== 'zeros failed') this.asked.set(name, asked);
  };

  private async getRequests(name: string): Promise<GoldenRequest[]> {
    const requests = this.requests.get(name) ?? (await readRequests(this.options.golden(name)));
    this.requests.set(name, requests);
    return requests;
  }
}
