import { join } from 'node:path';
import type { Release } from '../../src/publish/release/release';
import type { Scratch } from './temp-dir';
import { writeFiles, type Files } from './soak-models';
import type { TestRepository } from './test-repository';

/** A change of a repository whose preconditions are met. */
export interface ReadyChange {
  /** The change as a command line, without the flags for the place. */
  command: [string, ...string[]];
  /** Makes the change in this process. */
  run(place: TestRepository): Promise<Release>;
}

export interface Change {
  name: string;
  /** Brings an empty place to the initial state of the change. */
  prepare(place: TestRepository): Promise<ReadyChange>;
}

/** All kinds of changes between two states of a repository, which are written into the scratch folder. */
export function getChanges(scratch: Scratch, states: { old: Files; next: Files }): Change[] {
  const old = writeFiles(join(scratch.directory, 'old'), states.old);
  const next = writeFiles(join(scratch.directory, 'next'), states.next);
  const publication = (...flags: string[]): ReadyChange => ({
    command: ['sync-models', '--repo', next, ...flags],
    run: (place) => place.publish(next, { prune: flags.includes('--prune') }),
  });
  const rollback = ({ id }: Release): ReadyChange => ({
    command: ['rollback', id],
    run: (place) => place.rollBack(id),
  });
  return [
    {
      name: 'a first publication',
      prepare: () => Promise.resolve(publication()),
    },
    {
      name: 'a publication',
      prepare: async (place) => {
        await place.publish(old);
        return publication();
      },
    },
    {
      name: 'a publication with --prune',
      prepare: async (place) => {
        await place.publish(old);
        return publication('--prune', '--yes');
      },
    },
    {
      name: 'a rollback',
      prepare: async (place) => {
        const before = await place.publish(old);
        await place.publish(next);
        return rollback(before);
      },
    },
    {
      name: 'a rollback to what an earlier one took out',
      prepare: async (place) => {
        const before = await place.publish(old);
        const after = await place.publish(next);
        await place.rollBack(before.id);
        return rollback(after);
      },
    },
  ];
}
