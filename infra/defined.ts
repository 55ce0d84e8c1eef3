/** Returns a copy without the properties that are undefined, which would replace defaults when the copy is spread. */
export const defined = <T extends object>(values: T | undefined): T =>
  Object.fromEntries(Object.entries(values ?? {}).filter(([, value]) => value !== undefined)) as T;
