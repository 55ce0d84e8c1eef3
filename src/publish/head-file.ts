import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { PartialFailureError, UserError } from '../core/errors';
import { FormatError, OtherFormatError } from '../release/format';
import { encodeHead, parseHead, type Head } from '../release/head';
import { parseManifest, sha256Hex, type Manifest } from '../release/manifest';
import type { PutCondition, S3Store } from '../s3/store';
import { AnotherPublisherError } from './agent-client';
import { headKey, releaseKey, type RepositoryLocation } from '../release/location';

/** A content of head.json, which a change of the repository is based on. */
export interface Base {
  /** Undefined before the first release. */
  head: Head | undefined;
  /** How a request replaces exactly this content. */
  condition: PutCondition;
  /** 0 before the first release. */
  generation: number;
}

/** The id of a new release and of the run that makes it. Ids sort by time: `20261120T113254123Z-1f2e3d4c`. */
export const newId = (now = new Date()): string =>
  `${now.toISOString().replace(/[-:.]/g, '')}-${randomBytes(4).toString('hex')}`;

/** Releases that head.json retains, so that its size and the cost of a publish do not grow with the history. */
export const RETAINED = 20;

/** Deadline of a request that replaces head.json, in ms, so that none is under way for long. */
const COMMIT_MS = 10_000;

/** Time to find out whether a request that was not answered has changed head.json. */
const SETTLE_MS = 60_000;
const RETRY_MS = 500;

/** The pointer to the current release. It is only ever replaced if it is still the content that was read. */
export class HeadFile {
  /** Manifests never change. */
  private readonly manifests = new Map<string, Manifest>();

  constructor(
    private readonly store: S3Store,
    private readonly location: RepositoryLocation,
  ) {}

  /**
   * @param options `mayBeDamaged`: whether a head.json that cannot be read counts as one without content, so that it can be
   * replaced; `deadlineMs`: of the request
   */
  async read({
    mayBeDamaged = false,
    deadlineMs,
  }: { mayBeDamaged?: boolean; deadlineMs?: number } = {}): Promise<Base> {
    const found = await this.store.get(headKey(this.location), { deadlineMs });
    if (found === undefined) return { head: undefined, condition: { ifAbsent: true }, generation: 0 };
    const condition = { ifEtag: found.etag };
    try {
      const head = parseHead(found.body, `s3://${this.store.bucket}/${headKey(this.location)}`);
      return { head, condition, generation: head.generation };
    } catch (error) {
      if (!mayBeDamaged || !(error instanceof FormatError) || error instanceof OtherFormatError) throw error;
      return { head: undefined, condition, generation: 0 };
    }
  }

  /**
   * Replaces the base with the next generation. Returns if the release is, or was, the current one; otherwise it never
   * will be, unless the error says that this is unknown. test/proof/Publish.tla specifies this (Commit, Check, Fence).
   * @throws AnotherPublisherError if another publisher changed head.json first
   * @throws PartialFailureError if the outcome cannot be found out
   */
  async replace(base: Base, next: Omit<Head, 'generation'>): Promise<number> {
    const generation = base.generation + 1;
    try {
      await this.put({ ...next, generation }, base.condition);
      return generation;
    } catch (error) {
      // Neither no answer nor a refusal proves anything: the client may have repeated a request that was applied.
      return await this.settle(base, next, error);
    }
  }

  private async settle(base: Base, next: Omit<Head, 'generation'>, reason: unknown): Promise<number> {
    const deadline = Date.now() + SETTLE_MS;
    while (Date.now() < deadline) {
      try {
        const now = await this.read({ deadlineMs: COMMIT_MS });
        if (now.head !== undefined && (await this.includes(now.head, next.release, base))) return base.generation + 1;
        if (now.generation !== base.generation) throw new AnotherPublisherError(overtaken(now.head), { cause: reason });
        if (base.head === undefined) {
          // Before the first release there is nothing else to write: the same request, sent again, settles it.
          await this.put({ ...next, generation: base.generation + 1 }, base.condition);
          return base.generation + 1;
        }
        // The same release in the next generation: then the request that was not answered can never be applied.
        await this.put({ ...base.head, writer: next.writer, generation: base.generation + 1 }, base.condition);
        throw new UserError(`head.json was not changed: ${(reason as Error).message}`, { cause: reason });
      } catch (error) {
        if (error instanceof AnotherPublisherError || (error as Error).cause === reason) throw error;
      }
      await sleep(RETRY_MS);
    }
    throw new PartialFailureError(
      `it is unknown whether release ${next.release} is the current one: ${(reason as Error).message}`,
      { hint: 'run "npm run status" when S3 is reachable again', cause: reason },
    );
  }

  /** Whether the release is the current one, or is among those between the base and the current one. */
  private async includes(head: Head, release: string, base: Base): Promise<boolean> {
    for (let id: string | undefined = head.release; id !== undefined && id !== base.head?.release;) {
      if (id === release) return true;
      id = (await this.readManifest(id))?.previous;
    }
    return false;
  }

  /** @throws UserError if the manifest is not the one with this SHA-256 */
  async readManifest(id: string, manifestSha256?: string): Promise<Manifest | undefined> {
    const known = this.manifests.get(id);
    if (known !== undefined) return known;
    const key = releaseKey(this.location, id);
    const found = await this.store.get(key);
    if (found === undefined) return undefined;
    const where = `s3://${this.store.bucket}/${key}`;
    if (manifestSha256 !== undefined && sha256Hex(found.body) !== manifestSha256) {
      throw new UserError(`${where} is not the manifest that was published`, {
        hint: 'restore the first version of that object',
      });
    }
    const manifest = parseManifest(found.body, where);
    this.manifests.set(id, manifest);
    return manifest;
  }

  /** Replaces the content that the condition names, or throws: then it may have been replaced or not. */
  async put(head: Head, condition: PutCondition): Promise<void> {
    await this.store.putBytes(headKey(this.location), encodeHead(head), condition, { deadlineMs: COMMIT_MS });
  }
}

const overtaken = (head: Head | undefined): string =>
  `another publisher made ${head?.release ?? 'another release'} the current release in the meantime`;
