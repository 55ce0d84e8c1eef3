import type { DesiredObject } from '../plan/desired';
import type { Release, ReleasedObject } from './release';

/** The releases of a repository, for a rollback or a promotion. */
export interface ReleaseArchive {
  current: Release | undefined;
  /**
   * The release with that id, or the only one whose id contains it.
   * @throws UserError if it cannot be restored
   */
  find(id: string): Promise<Release>;
  /** A release that was current once; undefined if its manifest is gone. */
  read(id: string): Promise<Release | undefined>;
  /** Where the bytes of an object of a release are. */
  origin(release: Release, key: string, object: ReleasedObject): Pick<DesiredObject, 'source' | 'etag'>;
}
