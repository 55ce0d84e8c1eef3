import { isDeepStrictEqual } from 'node:util';
import type { GoldenRequest } from '../model/golden';
import { askModel, type Asked } from '../release/ask';
import type { Manifest, ManifestModel } from '../release/manifest';
import type { InferenceClient } from '../triton/client';
import { getUnits } from './content-store';
import type { Report } from './events';
import { inLoadOrder } from './switch-models';

/** How models of a release answered, by name. */
export type AskedModels = Record<string, Asked>;

/**
 * The models that may answer otherwise than in another release: their files, configuration or golden requests changed,
 * or those of a composing model. Composing models come before their ensembles.
 */
export function getModelsToAsk(to: Manifest, from: Manifest | undefined): string[] {
  const changed = new Set<string>();
  for (const name of inLoadOrder(to.models)) {
    const model = to.models[name] as ManifestModel;
    const old = from?.models[name];
    if (
      model.composedOf.some((step) => changed.has(step)) ||
      !isDeepStrictEqual(getDeterminants(name, model), getDeterminants(name, old))
    )
      changed.add(name);
  }
  return [...changed];
}

/** Returns what determines the answers of a model, except its composing models. */
function getDeterminants(name: string, model: ManifestModel | undefined): unknown {
  if (model === undefined) return undefined;
  return [model.config, model.golden?.checksum, ...getUnits(name, model).map(({ content }) => content)].sort();
}

export interface AskModelsOptions {
  triton: Pick<InferenceClient, 'modelConfig' | 'infer'>;
  /** How models answered in the release that this one replaces. */
  before: AskedModels;
  signal: AbortSignal;
  /** Called before a model is asked. */
  onAsk?: (model: string) => void;
  report: Report;
}

/**
 * Sends models their golden requests, and zeros to those without.
 * @throws WrongAnswerError
 */
export async function askModels(
  { models }: Manifest,
  golden: ReadonlyMap<string, GoldenRequest[]>,
  { triton, before, signal, onAsk, report }: AskModelsOptions,
): Promise<AskedModels> {
  const asked: AskedModels = {};
  for (const [name, requests] of golden) {
    const { served } = models[name] as ManifestModel;
    onAsk?.(name);
    const answered = await askModel(triton, { name, served }, requests, {
      zerosWereAnswered: before[name] === 'zeros',
      signal,
    });
    asked[name] = answered.asked;
    report({ event: 'asked', model: name, result: answered.text, hint: answered.hint });
  }
  return asked;
}
