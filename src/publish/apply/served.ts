import type { Release, ReleasedModel } from '../release/release';
import { withoutFrames } from '../../triton/load-failure';
import type { ServedModel, ServedVersion } from './rollout';
import { topologicalOrder } from '../plan/desired';

/** A model of a release as replicas should serve it. */
export function servedModel(name: string, released: ReleasedModel): ServedModel & { composedOf: string[] } {
  const { served, digest, composedOf } = released;
  return { name, served, digest, composedOf };
}

/** The named models that a release has, composing models before their ensembles. */
export function servedModels(names: readonly string[], released: Readonly<Record<string, ReleasedModel>>) {
  return topologicalOrder(
    names.flatMap((name) => {
      const model = released[name];
      return model === undefined ? [] : [servedModel(name, model)];
    }),
  );
}

/** The ensembles of a release that are composed of the named models, directly or not, without these models. */
export function dependentsOf(names: readonly string[], released: Readonly<Record<string, ReleasedModel>>) {
  const touched = new Set(names);
  const others = Object.keys(released).filter((name) => !touched.has(name));
  return servedModels(others, released).filter(({ name, composedOf }) => {
    const depends = composedOf.some((step) => touched.has(step));
    if (depends) touched.add(name);
    return depends;
  });
}

/**
 * Adds the reason of the failed step to each ensemble that is not served because of it. Triton's own index gives no
 * reason for such an ensemble.
 */
export function withFailedSteps<V extends ServedVersion>(
  versions: readonly V[],
  models: readonly { name: string; composedOf: readonly string[] }[],
): V[] {
  const composing = new Map(models.map(({ name, composedOf }) => [name, composedOf]));
  /** The innermost failed step, because a step may be an ensemble itself. */
  const failedStep = (model: string, above: readonly string[]): V | undefined => {
    const steps = (composing.get(model) ?? []).filter((step) => !above.includes(step));
    const failed = versions.find((version) => steps.includes(version.model) && version.state !== 'READY');
    return failed === undefined ? undefined : (failedStep(failed.model, [...above, failed.model]) ?? failed);
  };
  return versions.map((version) => {
    const step = version.state === 'READY' ? undefined : failedStep(version.model, [version.model]);
    if (step === undefined) return version;
    const { model, version: number, state, reason } = step;
    const why = reason === '' ? '' : `: ${withoutFrames(model, reason)}`;
    return { ...version, reason: `because its step ${model} version ${number} is ${state}${why}`, failedStep: model };
  });
}

/** Models of a release in the order of their removal: ensembles before their composing models. */
export function reverseTopologicalOrder(names: readonly string[], release: Release | undefined): string[] {
  return servedModels(names, release?.models ?? {})
    .map(({ name }) => name)
    .reverse();
}
