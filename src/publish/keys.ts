/** The number of the version that a file in a model's folder belongs to: 1 for `1/model.pt`; undefined beside the versions. */
export function getVersion(path: string): number | undefined {
  const found = /^([1-9]\d*)\//.exec(path)?.[1];
  return found === undefined ? undefined : Number(found);
}
