import { isDeepStrictEqual } from 'node:util';
import { configText, withServedVersions, type RepositoryModel } from '../model';

/**
 * Returns the model with one warm-up request per shape, instead of several for each batch size. Warm-up of each size
 * is for GPUs, where the first calls of a shape take seconds. On a CPU, 72 faces for `gfpgan` take about half a minute.
 */
export function withShortWarmUp(model: RepositoryModel): RepositoryModel {
  const { model_warmup: samples = [] } = model.config;
  const kept = samples
    .filter(({ inputs }, index) => samples.findIndex((other) => isDeepStrictEqual(other.inputs, inputs)) === index)
    .map((sample) => ((sample.count ?? 1) > 1 ? { ...sample, count: 1 } : sample));
  if (isDeepStrictEqual(kept, samples)) return model;
  const config = { ...model.config, model_warmup: kept };
  const numbers = model.versions.map(({ version }) => version);
  return { ...model, config, configText: configText(withServedVersions(config, numbers)) };
}
