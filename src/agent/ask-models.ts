import { isDeepStrictEqual } from 'node:util';
import type { Asked } from '../release/ask';
import type { Manifest, ManifestModel } from '../release/manifest';
import { getUnits } from './content-store';
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
