/**
 * Sorts composing models before their ensembles: a stable topological order. Validation has already rejected cycles.
 */
export function topologicalOrder<T extends { name: string; composedOf: readonly string[] }>(models: readonly T[]): T[] {
  const byName = new Map(models.map((model) => [model.name, model]));
  const ordered = new Set<T>();
  const visit = (model: T, above: ReadonlySet<T>): void => {
    if (ordered.has(model) || above.has(model)) return;
    for (const name of model.composedOf) {
      const step = byName.get(name);
      if (step !== undefined) visit(step, new Set(above).add(model));
    }
    ordered.add(model);
  };
  for (const model of models) visit(model, new Set());
  return [...ordered];
}
