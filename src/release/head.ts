import { count, FORMAT, list, object, parseObject, text } from './format';

/** Ids sort by time: `20261120T113254123Z-1f2e3d4c`. */
export const RELEASE_ID = /^\d{8}T\d{9}Z-[0-9a-f]{8}$/;

export const SHA256_HEX = /^[0-9a-f]{64}$/;

/** Before the first release, head.json does not exist, and a pod serves no models. */
export const NO_RELEASE = 'none';

/**
 * `PREFIX.releases/head.json`: the release that every replica should serve. Each write increases the generation, so two
 * contents of this object never have the same ETag.
 */
export interface Head {
  /** 1 for the first content, and one more for each later one. */
  generation: number;
  release: string;
  manifestSha256: string;
  /** Ids of the releases whose files are kept, the current one among them. A rollback accepts only these. */
  retained: string[];
  /** Number of prunes. The keys of new files end in it. */
  sweep: number;
  /** Id of the run that wrote this. */
  writer: string;
}

const readHead = object<Head>({
  generation: count(),
  release: text(RELEASE_ID),
  manifestSha256: text(SHA256_HEX),
  retained: list(text()),
  sweep: count(),
  writer: text(),
});

/** @throws FormatError */
export const parseHead = (body: Buffer, where: string): Head => parseObject(body, where, readHead);

export const encodeHead = (head: Head): Buffer => Buffer.from(`${JSON.stringify({ format: FORMAT, ...head })}\n`);
