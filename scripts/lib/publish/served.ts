import type { Release, ReleasedModel } from './release';
import type { ServedModel } from './rollout';
import { composingFirst } from './wanted';

/** A model of a release as servers are to have it. */
export function servedModel(name: string, released: ReleasedModel): ServedModel & { composedOf: string[] } {
  const { served, digest, composedOf } = released;
  return { name, served, digest, composedOf };
}

/** Those of the models that a release has, what an ensemble is made of before the ensemble. */
export function servedModels(names: readonly string[], released: Readonly<Record<string, ReleasedModel>>) {
  return composingFirst(
    names.flatMap((name) => {
      const model = released[name];
      return model === undefined ? [] : [servedModel(name, model)];
    }),
  );
}

/** Models of a release in the order in which to take them out: no ensemble is ever without what it is made of. */
export function ensemblesFirst(names: readonly string[], release: Release | undefined): string[] {
  return servedModels(names, release?.models ?? {})
    .map(({ name }) => name)
    .reverse();
}
