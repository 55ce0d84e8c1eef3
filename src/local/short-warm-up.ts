import { isDeepStrictEqual } from 'node:util';
import { configText, withServedVersions, type RepositoryModel } from '../model';

/**
 * The model with one warm-up sample for each shape of a request, in place of one for each batch size. Sizes are warmed up for
 * GPUs, on which the first calls of a shape take seconds; 72 faces for `gfpgan` take about half a minute on a CPU.
 */
export function withShortWarmUp(model: RepositoryModel): RepositoryModel {
  const { model_warmup: samples = [] } = model.config;
  const kept = samples.filter(
    ({ inputs }, index) => samples.findIndex((other) => isDeepStrictEqual(other.inputs, inputs)) === index,
  );
  if (kept.length === samples.length) return model;
  const config = { ...model.config, model_warmup: kept };
  const numbers = model.versions.map(({ version }) => version);
  return { ...model, config, configText: configText(withServedVersions(config, numbers)) };
}
