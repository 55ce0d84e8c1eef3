/** Parses keys of objects under the repository prefix: `resnet/1/model.pt`, `resnet/config.pbtxt`. */

import { isTraceRecord } from '../model/paths';

export { CONFIG_FILE, isTraceRecord } from '../model/paths';

export const getModelName = (key: string): string => key.slice(0, Math.max(key.indexOf('/'), 0));

/** The number of the version folder that contains the object; undefined for objects outside of version folders. */
export function getVersion(key: string): number | undefined {
  // Optimized, because this function is called many times for each of thousands of keys.
  const start = key.indexOf('/') + 1;
  const end = key.indexOf('/', start);
  const first = key.charCodeAt(start);
  if (start === 0 || end < 0 || first < 0x31 || first > 0x39) return undefined;
  const folder = key.slice(start, end);
  return /^\d+$/.test(folder) ? Number(folder) : undefined;
}

/**
 * Whether the object may be replaced. Objects in version folders may not, except trace records, because replicas may
 * load them at any time.
 */
export const isReplaceable = (key: string): boolean => getVersion(key) === undefined || isTraceRecord(key);

/** The versions that objects belong to, without duplicates: `resnet 1`. */
export const getVersions = (keys: readonly string[]): string[] => [
  ...new Set(keys.map((key) => `${getModelName(key)} ${getVersion(key)}`)),
];
