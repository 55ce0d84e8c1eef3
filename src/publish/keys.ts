/** What the name of an object under the repository prefix tells: `resnet/1/model.pt`, `resnet/config.pbtxt`. */

import { isTraceRecord } from '../model/paths';

export { CONFIG_FILE, isTraceRecord } from '../model/paths';

export const modelOf = (key: string): string => key.slice(0, Math.max(key.indexOf('/'), 0));

/** The number of the version folder that the object lies in; undefined for what lies beside the version folders. */
export function versionOf(key: string): number | undefined {
  // Asked many times of each of thousands of keys.
  const start = key.indexOf('/') + 1;
  const end = key.indexOf('/', start);
  const first = key.charCodeAt(start);
  if (start === 0 || end < 0 || first < 0x31 || first > 0x39) return undefined;
  const folder = key.slice(start, end);
  return /^\d+$/.test(folder) ? Number(folder) : undefined;
}

/** Whether other bytes may take its place: not in a version folder, from which servers may load at any time. */
export const isReplaceable = (key: string): boolean => versionOf(key) === undefined || isTraceRecord(key);

/** The versions that objects belong to, each once: `resnet 1`. */
export const versionsOf = (keys: readonly string[]): string[] => [
  ...new Set(keys.map((key) => `${modelOf(key)} ${versionOf(key)}`)),
];
