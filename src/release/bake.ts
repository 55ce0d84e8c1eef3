import { count, FORMAT, map, object, optional, parseObject, text, type Read } from './format';
import { bakesPrefix, type RepositoryLocation } from './location';

/** The largest differences of a new release that are accepted, however certain they are. */
export interface BakeLimits {
  /** Share of the requests that fail. */
  maxErrorRate: number;
  /** Mean time of a request by that of the release before. */
  maxLatencyRatio: number;
}

/** Setting `bake` of a stack. */
export interface BakeSetting extends BakeLimits {
  minutes: number;
}

export const BAKE_DEFAULTS: Readonly<BakeLimits> = { maxErrorRate: 0.001, maxLatencyRatio: 1.5 };

/** What replicas have answered for a model. */
export interface BakedRequests {
  count: number;
  failed: number;
  /** Mean time of those that did not fail; null if there are none. */
  milliseconds: number | null;
}

/** `PREFIX.releases/bakes/ID.json`: how a release answered beside the one before it. Written once. */
export interface BakeRecord {
  outcome: 'passed' | 'worse' | 'not judged';
  /** Why it did not pass. */
  reason?: string | undefined;
  /** Time for which both releases were compared. */
  seconds: number;
  /** By model: the requests that the new release answered, and those that the release before it answered meanwhile. */
  models: Record<string, Record<'newer' | 'older', BakedRequests>>;
}

const milliseconds: Read<number | null> = (value) => (typeof value === 'number' ? value : null);
const requests = object<BakedRequests>({ count: count(), failed: count(), milliseconds });
const readRecord = object<BakeRecord>({
  outcome: text(/^(passed|worse|not judged)$/) as Read<BakeRecord['outcome']>,
  reason: optional(text()),
  seconds: count(),
  models: map(object<BakeRecord['models'][string]>({ newer: requests, older: requests })),
});

export const bakeKey = (location: RepositoryLocation, id: string): string => `${bakesPrefix(location)}${id}.json`;

/** @throws FormatError */
export const parseBake = (body: Buffer, where: string): BakeRecord => parseObject(body, where, readRecord);

export const encodeBake = (record: BakeRecord): Buffer => Buffer.from(JSON.stringify({ format: FORMAT, ...record }));
